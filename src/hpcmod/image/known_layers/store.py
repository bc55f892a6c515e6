"""Indexes of local SIFs: which layers each contains, and where; one private file per SIF.

An index is written by the conversion that made the SIF, into the user's state directory. Only the user's own indexes
are used, which no other user can read, as they contain the keys of the seals.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hpcmod.errors import BadInputError
from hpcmod.fs.ownership import make_private_directory, others_may_change
from hpcmod.fs.reading import open_regular, read_file
from hpcmod.fs.replacing import replacing
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.image.known_layers.sections import KEY_SIZE, SEAL_SIZE, PackedSection
from hpcmod.machine import absolute
from hpcmod.model.strict_json import JsonObject, load_json

_LOG = logging.getLogger(__name__)

_VERSION = 2
_MOST_KEPT = 30
_LONGEST_HEAD = 1 << 20
_LARGEST_SECTION = 1 << 28
_LARGEST_INDEX = 1 << 30
_DIGEST_SIZE = 32
_OTHERS = 0o077
_NAME = re.compile(r"[0-9a-f]{64}\.layers")


@dataclass(frozen=True)
class KnownLayer:
    """A layer in a SIF."""

    layer: str
    size: int
    """Stored size of the layer in bytes."""
    start: int
    """Offset of its section in the SIF."""
    length: int
    packed: int
    """Bytes of its packed entries in the index."""
    key: bytes
    seal: bytes


@dataclass(frozen=True)
class KnownSif:
    """A local SIF whose layers are known."""

    path: Path
    sha256: str
    size: int
    form: str
    """Compressor, its version, and the options of the conversion: sections fit only into SIFs of the same form."""
    layers: tuple[KnownLayer, ...]
    """The top layer first."""
    index: Path
    _at: int
    """Offset of the first packed entries in the index."""

    def read(self, number: int) -> PackedSection:
        """Read the section of a layer; OSError if the index cannot be read."""
        one = self.layers[number]
        with open_regular(self.index) as file:
            file.seek(self._at + sum(above.packed for above in self.layers[:number]))
            return PackedSection(one.layer, one.size, one.start, one.length, file.read(one.packed), one.key, one.seal)


def save_known(
    sif: Path, sha256: str, size: int, *, form: str, sections: Sequence[PackedSection], environ: Mapping[str, str]
) -> None:
    """Write the index of a new SIF, which may not have its final name yet, and remove those of deleted SIFs.

    Errors are only logged: without an index, the layers are converted again.
    """
    directory = _directory(environ)
    if directory is None or not sections:
        return
    head = {
        "version": _VERSION,
        "path": str(sif.absolute()),
        "sha256": sha256,
        "size": size,
        "form": form,
        "layers": [
            [one.layer, one.size, one.start, one.length, len(one.packed), one.key.hex(), one.seal.hex()]
            for one in sections
        ],
    }
    try:
        make_private_directory(directory)
        clear_leftovers(directory)
        content = b"".join((json.dumps(head).encode(), b"\n", *(one.packed for one in sections)))
        with replacing(directory / f"{sha256}.layers") as path, path.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.write(hashlib.sha256(content).digest())
        _prune(directory, sha256)
    except OSError as err:
        _LOG.warning("no index of the layers of %s: %s", sif, err)


def find_known(layers: Sequence[str], *, form: str, environ: Mapping[str, str]) -> KnownSif | None:
    """Return the local SIF, in the same form, with the most bytes of an image's layers; None if none has any."""
    best, most = None, 0
    for known in _read_all(environ):
        if known.form != form or not _is_there(known):
            continue
        size = sum(one.size for one in known.layers if one.layer in layers)
        if size > most and _is_intact(known.index):
            best, most = known, size
    return best


def _is_intact(index: Path) -> bool:
    """Return whether an index ends with its own sha256."""
    with suppress(OSError):
        content = read_file(index, _LARGEST_INDEX)
        return hashlib.sha256(content[:-_DIGEST_SIZE]).digest() == content[-_DIGEST_SIZE:]
    return False


def _is_there(known: KnownSif) -> bool:
    with suppress(OSError):
        return known.path.stat().st_size == known.size
    return False


def _read_all(environ: Mapping[str, str]) -> Iterator[KnownSif]:
    directory = _directory(environ)
    if directory is None:
        return
    for path in _indexes(directory):
        try:
            with open_regular(path, follow=False) as file:
                status = os.fstat(file.fileno())
                if not (status.st_mode & _OTHERS or others_may_change(status) or others_may_change(directory.stat())):
                    yield _read_head(path, file)
        except (OSError, BadInputError) as err:
            _LOG.info("%s is not used: %s", path, err)


def _indexes(directory: Path) -> list[Path]:
    """List the indexes in the directory, sorted by name."""
    with suppress(OSError):
        return sorted(path for path in directory.iterdir() if _NAME.fullmatch(path.name))
    return []


def _read_head(path: Path, file: BinaryIO) -> KnownSif:
    line = file.readline(_LONGEST_HEAD)
    found = JsonObject(load_json(line, str(path), limit=_LONGEST_HEAD), str(path))
    if found.number("version") != _VERSION:
        raise BadInputError(f"{path}: of another version")
    try:
        layers = [_read_layer(*one) for one in json.loads(line)["layers"]]
    except (KeyError, TypeError, ValueError) as err:
        raise BadInputError(f"{path}: an impossible layer: {err}") from err
    return KnownSif(
        Path(found.text("path")),
        found.text("sha256"),
        found.number("size"),
        found.text("form"),
        tuple(layers),
        path,
        len(line),
    )


def _read_layer(layer: str, size: int, start: int, length: int, packed: int, key: str, seal: str) -> KnownLayer:
    numbers = (size, start, length, packed)
    if not isinstance(layer, str) or any(type(each) is not int or each < 0 for each in numbers):
        raise ValueError(f"{layer!r} has {numbers}")
    if packed > _LARGEST_SECTION or len(key) != 2 * KEY_SIZE or len(seal) != 2 * SEAL_SIZE:
        raise ValueError(f"{layer!r} has entries of {packed} bytes, or no seal")
    return KnownLayer(layer, *numbers, bytes.fromhex(key), bytes.fromhex(seal))


def _prune(directory: Path, new: str) -> None:
    """Remove the indexes of deleted SIFs, and the oldest ones beyond the maximum number."""
    for number, path in enumerate(sorted(_indexes(directory), key=lambda path: path.stat().st_mtime, reverse=True)):
        with suppress(OSError, BadInputError), open_regular(path, follow=False) as file:
            if number >= _MOST_KEPT or not (path.stem == new or _is_there(_read_head(path, file))):
                path.unlink()


def _directory(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("HOME", "")
    state = absolute(environ.get("XDG_STATE_HOME")) or (f"{home}/.local/state" if home else "")
    return Path(state, "hpcmod", "layers") if state else None
