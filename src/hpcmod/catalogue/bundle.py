"""Pack easyconfigs and their images for a machine without a network: one tar file with the checksums of its files.

    SHA256SUMS                  first, in the format of `sha256sum -c`
    NAME.eb                     easyconfigs
    NAME.sif                    images
    NAME.sif.provenance.json    provenance files

All in one directory, because `eb` looks for an image beside its easyconfig.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.core.fs.checksums import check_sha256, file_sha256
from hpcmod.core.fs.reading import UnusableFileError, open_regular
from hpcmod.core.fs.replacing import replacing
from hpcmod.core.fs.space import Need, check_room
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.progress import Progress, Tally
from hpcmod.core.values.facts import PROVENANCE

SUMS = "SHA256SUMS"

_BLOCK = 1 << 20
_LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9_+][A-Za-z0-9._+-]*)")
_MOST = 10_000  # files
_LIMIT = 4 << 20  # bytes of the list
_FAULTS = (tarfile.TarError, ValueError, EOFError, OverflowError, RecursionError, MemoryError)
"""What tarfile raises for files that are no tar."""
_SUFFIXES = (".eb", ".sif", PROVENANCE)


def write_bundle(
    files: Sequence[Path], out: Path, *, expected: Mapping[str, str] | None = None, progress: Progress | None = None
) -> Mapping[str, str]:
    """Write a bundle of files; return their sha256 by name.

    `files`: Easyconfigs, images and their provenance files; each name once.
    `expected`: Expected sha256 by name.

    Raises VerificationError if a file does not have the expected sha256; BadInputError if two files have the same name,
    or a name is invalid; NoSpaceError if the disk is too small.
    """
    _check_names([path.name for path in files])
    sizes = {path.name: path.stat().st_size for path in files}
    total = sum(sizes.values())
    check_room([Need(out.absolute().parent, total, 1, "the bundle", "name another place for the bundle")])
    tally = Tally(out.name, sizes, progress)
    clear_leftovers(out.parent, out.name)
    with replacing(out) as new, new.open("xb") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            blank = _list_sums(dict.fromkeys(sizes, "0" * 64))
            tar.addfile(_member(SUMS, len(blank)), io.BytesIO(blank))
            sums = {path.name: _add(tar, path, sizes[path.name], tally) for path in files}
        for path in files:
            check_sha256(path, expected=(expected or {}).get(path.name), found=sums[path.name])
        file.seek(tarfile.BLOCKSIZE)  # the list is first but known last, so that each file is read only once
        file.write(_list_sums(sums))
        file.flush()
        os.fsync(file.fileno())
    return sums


def _list_sums(sums: Mapping[str, str]) -> bytes:
    return "".join(f"{checksum}  {name}\n" for name, checksum in sums.items()).encode()


def _add(tar: tarfile.TarFile, path: Path, size: int, tally: Tally) -> str:
    with open_regular(path) as file:
        source = _Hashed(file, path.name, tally)
        tar.addfile(_member(path.name, size), source)
    return source.sha256.hexdigest()


def read_bundle(
    bundle: Path, directory: Path, *, replace: bool = False, progress: Progress | None = None
) -> list[Path]:
    """Unpack a bundle into a directory, and return its easyconfigs and images, the easyconfigs first.

    Each file is created only if its sha256 is right, and identical files are kept.

    `replace`: Replace existing files of the same name with different content.

    Raises BadInputError if it is not a bundle, or would replace a file; VerificationError if a file is missing, cut off
    or changed; NoSpaceError if the disk is too small.
    """
    with _open_tar(bundle) as tar:
        sums = _read_sums(bundle, tar)
        names = () if replace else (name for name in sums if os.path.lexists(directory / name))
        there = {name: (directory / name).lstat().st_size for name in names}
        whole = bundle.stat().st_size
        tally = Tally(bundle.name, {SUMS: whole, **there}, progress)
        _check_there(directory, {name: sums[name] for name in there}, tally)
        directory.mkdir(parents=True, exist_ok=True)
        clear_leftovers(directory)
        size = max(0, whole - sum(there.values()))
        check_room([Need(directory, size, len(sums), "the bundle's files", "choose another directory with -o")])
        with _whole(bundle):
            _unpack_all(tar, directory, sums, tally, skip=there)
        tally.set(SUMS, whole)
    return [directory / name for suffix in _SUFFIXES[:2] for name in sums if name.endswith(suffix)]


def _check_there(directory: Path, sums: Mapping[str, str], tally: Tally) -> None:
    for name, expected in sums.items():
        path = directory / name
        checksum = file_sha256(path, partial(_tell, tally, name)) if path.is_file() and not path.is_symlink() else ""
        if checksum != expected:
            raise BadInputError(
                f"{path}: already exists with different content",
                "Choose another directory with -o, or replace the file with --force.",
            )


def _tell(tally: Tally, name: str, done: int, _: int) -> None:
    tally.set(name, done)


@contextmanager
def _open_tar(bundle: Path) -> Iterator[tarfile.TarFile]:
    try:
        with open_regular(bundle) as file, tarfile.open(bundle, mode="r:", fileobj=file) as tar:
            yield tar
    except UnusableFileError as err:
        raise BadInputError(f"{bundle}: {err.strerror}", "Make one: hpcmod bundle export.") from err
    except OSError as err:
        if err.errno != errno.EINVAL:  # EINVAL: a negative length in a damaged tar makes tarfile seek before the start
            raise
        raise BadInputError(f"{bundle}: not a bundle, or damaged", "Copy the bundle again.") from err
    except _FAULTS as err:
        raise BadInputError(f"{bundle}: not a bundle: {err}", "Make one: hpcmod bundle export.") from err


def _read_sums(bundle: Path, tar: tarfile.TarFile) -> dict[str, str]:
    first = tar.next()
    file = tar.extractfile(first) if first and first.name == SUMS and first.isreg() else None
    text = file.read(_LIMIT).decode("ascii") if file else ""
    matches = [_LINE.fullmatch(line) for line in text.splitlines()]
    if not matches or not all(matches) or len(matches) > _MOST:
        raise BadInputError(f"{bundle}: not a bundle: it does not begin with {SUMS}", "Make one: hpcmod bundle export.")
    sums = {match[2]: match[1] for match in matches if match}
    _check_names(list(sums))
    return sums


@contextmanager
def _whole(bundle: Path) -> Iterator[None]:
    """Report tar errors after the list of checksums as a truncated bundle, not as a file of another kind."""
    try:
        yield
    except _FAULTS as err:
        raise VerificationError(f"{bundle}: truncated or damaged: {err}", "Copy the bundle again.") from err


def _unpack_all(
    tar: tarfile.TarFile, directory: Path, sums: Mapping[str, str], tally: Tally, *, skip: Collection[str]
) -> None:
    """Unpack exactly the files in the list."""
    missing = dict(sums)
    for member in iter(tar.next, None):
        if not member.isreg() or member.issparse():  # a small sparse file could fill the disk
            raise BadInputError(
                f"{tar.name!s}: contains {member.name!r}, which is not a regular file", "Create the bundle again."
            )
        if member.name not in missing:
            raise BadInputError(
                f"{tar.name!s}: contains {member.name!r}, which is not in its {SUMS}", "Create the bundle again."
            )
        expected = missing.pop(member.name)
        if member.name not in skip:
            _unpack(tar, member, directory / member.name, expected, tally)
    if missing:
        raise VerificationError(f"{tar.name!s}: missing {', '.join(missing)}", "Copy the bundle again.")


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, expected: str, tally: Tally) -> None:
    source = tar.extractfile(member)
    sha256 = hashlib.sha256()
    clear_leftovers(path.parent, path.name)
    with replacing(path) as new:
        with new.open("xb") as file:
            while source and (block := source.read(_BLOCK)):
                sha256.update(block)
                file.write(block)
                tally.set(SUMS, member.offset_data + file.tell())
            file.flush()
            os.fsync(file.fileno())
        found = sha256.hexdigest()
        check_sha256(f"{tar.name!s}: {member.name}", expected=expected, found=found, cure="Copy the bundle again.")


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


def _check_names(names: Sequence[str]) -> None:
    bad = [name for name in names if not _LINE.fullmatch(f"{'0' * 64}  {name}") or not name.endswith(_SUFFIXES)]
    twice = {name for name in names if names.count(name) > 1}
    if bad or twice:
        raise BadInputError(
            f"a bundle cannot contain {', '.join(sorted({*bad, *twice}))}",
            "It may contain easyconfigs (.eb) and images (.sif) with plain names, each name once.",
        )


class _Hashed(io.RawIOBase):
    """Hashes and counts the bytes that are read."""

    def __init__(self, file: BinaryIO, name: str, tally: Tally) -> None:
        super().__init__()
        self._file, self._name, self._tally = file, name, tally
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.sha256.update(data)
        self._tally.set(self._name, self._file.tell())
        return data
