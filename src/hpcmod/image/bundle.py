"""Carry easyconfigs and their images to a machine without a network: one tar, which tells the sum of each of its files.

    SHA256SUMS                  first, as `sha256sum -c` takes it
    NAME.eb                     easyconfigs
    NAME.sif                    images
    NAME.sif.provenance.json    where they came from

All in one directory, for `eb` looks for an image beside its easyconfig.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hpcmod.errors import BadInputError, VerificationError
from hpcmod.image.integrity import BLOCK, Progress, Ticker, check_sha256, file_sha256
from hpcmod.image.preflight import Need, check_room
from hpcmod.replacing import replacing

SUMS = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9_+][A-Za-z0-9._+-]*)")
_MOST = 10_000  # files
_LIMIT = 4 << 20  # bytes of the list
_SUFFIXES = (".eb", ".sif", ".provenance.json")


@dataclass(frozen=True)
class Unpacked:
    """What came out of a bundle."""

    easyconfigs: tuple[Path, ...]
    images: tuple[Path, ...]


def write_bundle(
    files: Sequence[Path], out: Path, *, expected: Mapping[str, str] | None = None, progress: Progress | None = None
) -> Mapping[str, str]:
    """Write a bundle of files; return their sums by name.

    Parameters
    ----------
    files
        Easyconfigs, images, and what lies beside these; each name once.
    expected
        Sums that files must have, by name.

    Raises
    ------
    VerificationError
        If a file has another sum than is expected.
    BadInputError
        If two have one name, or a name is not as it must be.
    NoSpaceError
        If the bundle will not fit.
    """
    _check_names([path.name for path in files])
    total = sum(path.stat().st_size for path in files)
    check_room([Need(out.absolute().parent, total, 1, "the bundle", "name another place for the bundle")])
    sums = {path.name: file_sha256(path) for path in files}
    for path in files:
        check_sha256(str(path), expected=(expected or {}).get(path.name), found=sums[path.name])
    ticker = Ticker(progress, total)
    with replacing(out) as partial, partial.open("wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
        listed = "".join(f"{found}  {name}\n" for name, found in sums.items()).encode()
        tar.addfile(_member(SUMS, len(listed)), io.BytesIO(listed))
        for path in files:
            with path.open("rb") as source:
                tar.addfile(_member(path.name, path.stat().st_size), _Counted(source, ticker))
        tar.close()
        file.flush()
        os.fsync(file.fileno())
    return sums


def read_bundle(bundle: Path, directory: Path, *, replace: bool = False, progress: Progress | None = None) -> Unpacked:
    """Unpack a bundle into a directory: each file gets its name when its sum is right.

    Parameters
    ----------
    replace
        Replace files of these names that are there and hold something else.

    Raises
    ------
    BadInputError
        If it is no bundle, or would replace a file.
    VerificationError
        If a file is missing, cut off or changed.
    NoSpaceError
        If it will not fit.
    """
    with _open_tar(bundle) as tar:
        sums = _read_sums(bundle, tar)
        if not replace:
            _check_place(directory, sums)
        directory.mkdir(parents=True, exist_ok=True)
        need = Need(directory, bundle.stat().st_size, len(sums), "what is in the bundle", "name another directory: -o")
        check_room([need])
        ticker = Ticker(progress, bundle.stat().st_size)
        for member in iter(tar.next, None):
            if not member.isreg() or member.issparse():  # holes are bytes from nowhere: a small bundle fills a disk
                raise BadInputError(f"{bundle}: holds {member.name!r}, which is no plain file", "Make it anew.")
            if member.name not in sums:
                raise BadInputError(f"{bundle}: holds {member.name!r}, which its list of sums does not name")
            _unpack(tar, member, directory / member.name, sums.pop(member.name), ticker)
    if sums:
        raise VerificationError(f"{bundle}: lacks {', '.join(sums)}", "Copy the bundle again.")
    return _list(directory, bundle)


def _check_place(directory: Path, sums: Mapping[str, str]) -> None:
    """Refuse to replace what is there; what an earlier import of the same bundle has put there may stay."""
    for name, expected in sums.items():
        path = directory / name
        if os.path.lexists(path) and not (path.is_file() and file_sha256(path) == expected):
            raise BadInputError(
                f"{path}: is there already, and is another file",
                "Name another directory: -o, or have it replaced: --force.",
            )


def _list(directory: Path, bundle: Path) -> Unpacked:
    with _open_tar(bundle) as tar:
        names = list(_read_sums(bundle, tar))
    paths = [directory / name for name in names]
    return Unpacked(
        tuple(path for path in paths if path.suffix == ".eb"), tuple(path for path in paths if path.suffix == ".sif")
    )


@contextmanager
def _open_tar(bundle: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(bundle, mode="r:") as tar:
            yield tar
    except OSError as err:
        if err.errno != errno.EINVAL:  # that is where a negative length leads before the start of the file
            raise
        raise BadInputError(f"{bundle}: no bundle, or damaged", "Copy the bundle again.") from err
    except (tarfile.TarError, ValueError, EOFError, OverflowError, RecursionError, MemoryError) as err:
        raise BadInputError(f"{bundle}: no bundle, or cut off: {err}", "Copy the bundle again.") from err


def _read_sums(bundle: Path, tar: tarfile.TarFile) -> dict[str, str]:
    first = tar.next()
    file = tar.extractfile(first) if first and first.name == SUMS and first.isreg() else None
    text = file.read(_LIMIT).decode("ascii") if file else ""
    found = [_LINE.fullmatch(line) for line in text.splitlines()]
    if not found or not all(found) or len(found) > _MOST:
        raise BadInputError(f"{bundle}: no bundle: it does not begin with {SUMS}", "Make one: hpcmod bundle export.")
    sums = {match[2]: match[1] for match in found if match}
    _check_names(list(sums))
    return sums


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, expected: str, ticker: Ticker) -> None:
    source = tar.extractfile(member)
    sha256 = hashlib.sha256()
    with replacing(path) as partial:
        with partial.open("wb") as file:
            while source and (block := source.read(BLOCK)):
                sha256.update(block)
                file.write(block)
                ticker.tick(tar.offset + file.tell())
            file.flush()
            os.fsync(file.fileno())
        check_sha256(f"{tar.name!s}: {member.name}", expected=expected, found=sha256.hexdigest())


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


def _check_names(names: Sequence[str]) -> None:
    bad = [name for name in names if not _LINE.fullmatch(f"{'0' * 64}  {name}") or not name.endswith(_SUFFIXES)]
    twice = {name for name in names if names.count(name) > 1}
    if bad or twice:
        raise BadInputError(
            f"a bundle cannot hold {', '.join(sorted({*bad, *twice}))}",
            "It holds easyconfigs (.eb) and images (.sif) of plain names, each name once.",
        )


class _Counted(io.RawIOBase):
    """Tells how many bytes went by."""

    def __init__(self, file: BinaryIO, ticker: Ticker) -> None:
        super().__init__()
        self._file, self._ticker = file, ticker

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._ticker.tick(self._file.tell())
        return data
