"""Read and check the header of a SIF without starting a runtime; format.py describes the format."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hpcmod.core.errors import BadInputError, LackingError, VerificationError
from hpcmod.core.fs.reading import open_input
from hpcmod.core.values.facts import architecture_name
from hpcmod.images.sif.format import (
    ARCHITECTURES,
    DESCRIPTOR,
    FILE_SYSTEMS,
    HEADER,
    MAGIC,
    MAGIC_AT,
    PARTITION_EXTRA,
    PRIMARY,
    TYPES,
    VERSION,
)

_MOST_DESCRIPTORS = 4096  # Apptainer reserves 48; a damaged count must not make us read gigabytes

_LOOKED_AT = 4096  # bytes, to recognise a file that is not a SIF
_FETCH_AGAIN = "Fetch or copy the image again; with its sha256 in `checksums` such damage is found during the download."
_LOOKS = (
    (0, b"\x1f\x8b", "gzip-compressed data", "If it is a packed image, unpack it with gunzip first."),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed data", "If it is a packed image, unpack it with unzstd first."),
    (0, b"\xfd7zXZ\0", "xz-compressed data", "If it is a packed image, unpack it with unxz first."),
    (0, b"PK\x03\x04", "a zip archive", "Unpack it, and use the .sif file in it."),
    (0, b"\x7fELF", "a program (ELF)", "Give the image, not the program that runs it."),
    (0, b"hsqs", "a bare squashfs file system", "Convert it to a SIF: apptainer build NEW.sif THIS_FILE."),
    (257, b"ustar", "a tar archive, as docker save writes", "Make a SIF: apptainer build NEW.sif docker-archive:FILE."),
    (0, b"version https://git-lfs", "a git-lfs pointer, not the file itself", "Get the file itself with git lfs pull."),
)


@dataclass(frozen=True)
class SifDescriptor:
    """One data object of a SIF; offset and size are bytes in the file."""

    kind: str
    """definition, labels, partition, signature, json, ...; `0x...` for an unknown type."""
    id: int
    offset: int
    size: int
    name: str
    file_system: str = ""
    """File system of a partition: squashfs, ext3, encrypted squashfs, ...; empty for other objects."""
    primary: bool = False
    """Whether this is the partition that holds the root file system."""
    architecture: str = ""
    """GOARCH name of a partition; empty if unknown."""


@dataclass(frozen=True)
class SifHeader:
    """Header and descriptors of a SIF."""

    path: Path
    size: int
    """Size of the file in bytes."""
    architecture: str
    """GOARCH name: amd64, arm64, ...; `unknown` if missing in the file."""
    created: int
    """Time of creation in Unix seconds."""
    descriptors: tuple[SifDescriptor, ...]
    """Used descriptors, in the order of the table."""


def read_sif(path: Path | str, *, shown: Path | None = None) -> SifHeader:
    """Read header and descriptors of a SIF, and check that the file is not truncated.

    `shown` is the path for messages and the result, if `path` is still a temporary path.

    Raises NotFoundError if there is no such file; BadInputError if the file is not a SIF (the message says what it
    looks like); VerificationError if the file is truncated, or its header is damaged.
    """
    with open_input(Path(path)) as file:
        path = shown or Path(path)
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEADER.size)
        check_start(str(path), head + file.read(_LOOKED_AT))
        if len(head) < HEADER.size:
            raise _truncated(path, HEADER.size, size)
        _, _, version, arch, _, created, _, _, total, table_at, *_ = HEADER.unpack(head)
        if _text(version) != VERSION:
            raise BadInputError(f"{path}: SIF version {_text(version)!r}, expected {VERSION!r}")
        descriptors = _read_descriptors(path, file, size, total, table_at)
    _check_length(path, size, descriptors)
    return SifHeader(path, size, _architecture(arch, descriptors), created, descriptors)


def check_sif(sif: SifHeader, *, architecture: str) -> None:
    """Check that a machine can run a SIF.

    `architecture` is the machine's, as GOARCH or kernel name: amd64 or x86_64.

    Raises LackingError if the image is for another architecture, and BadInputError if it has no root file system, or
    one in an unsupported format.
    """
    squashfs_partition(sif)
    machine = architecture_name(architecture)
    if sif.architecture not in ("unknown", machine):
        raise LackingError(
            f"{sif.path}: the image is for {sif.architecture}, this machine is {machine}",
            f"Use an image for {machine}, or install this one on a machine with {sif.architecture}.",
        )


def squashfs_partition(sif: SifHeader) -> SifDescriptor:
    """Find the primary partition, which must be squashfs.

    Raises BadInputError if it is missing, or has another file system.
    """
    primary = next((descriptor for descriptor in sif.descriptors if descriptor.primary), None)
    if primary is None:
        found = ", ".join(descriptor.kind for descriptor in sif.descriptors) or "nothing"
        raise BadInputError(
            f"{sif.path}: the SIF has no primary partition, and so no root file system; it contains: {found}",
            "Build or pull the image again; `apptainer sif list FILE` shows what is in it.",
        )
    if primary.file_system != "squashfs":
        raise BadInputError(
            f"{sif.path}: the root file system is {primary.file_system}, expected squashfs",
            "Build the image again without encryption and without a writable partition: apptainer build NEW.sif ...",
        )
    return primary


def check_start(name: str, start: bytes) -> None:
    """Check that a file, of which `start` are the first bytes (up to 4 KiB), begins like a SIF.

    Raises BadInputError if it does not, which says what the file looks like.
    """
    if start[MAGIC_AT : MAGIC_AT + len(MAGIC)] != MAGIC:
        looks, cure = _look(start)
        raise BadInputError(f"{name}: not a SIF: it looks like {looks}", cure)


def _look(start: bytes) -> tuple[str, str]:
    """Return what a file looks like from its first 4 KiB, and what to do with it."""
    if not start:
        return "an empty file", "Fetch or copy the image again."
    for offset, magic, looks, cure in _LOOKS:
        if start[offset:].startswith(magic):
            return looks, cure
    if start.lstrip()[:100].lower().startswith((b"<!doctype html", b"<html")):
        return "a web page", "Open the address in a browser, and use the link to the file itself."
    if _is_text(start):
        line = start.lstrip().split(b"\n", 1)[0][:60].decode(errors="replace")
        return f"a text file that begins with {line!r}", "Give the image file (.sif) itself."
    return "an unknown format", _FETCH_AGAIN


def _is_text(start: bytes) -> bool:
    return b"\0" not in start and sum(byte < 9 or byte > 126 for byte in start) * 10 < len(start)


def _read_descriptors(path: Path, file: BinaryIO, size: int, total: int, table_at: int) -> tuple[SifDescriptor, ...]:
    if not 0 <= total <= _MOST_DESCRIPTORS or table_at < HEADER.size:
        raise _damaged(path, f"{total} descriptors at {table_at}")
    table_end = table_at + total * DESCRIPTOR.size
    if table_end > size:
        raise _truncated(path, table_end, size)
    file.seek(table_at)
    table = file.read(total * DESCRIPTOR.size)
    return tuple(_make_descriptor(record) for record in DESCRIPTOR.iter_unpack(table) if record[1])


def _make_descriptor(record: tuple[Any, ...]) -> SifDescriptor:
    kind, _used, number, _group, _link, offset, size, *_times, name, extra = record
    file_system, role, arch = PARTITION_EXTRA.unpack_from(extra)
    kind_name = TYPES.get(kind, f"0x{kind & 0xFFFFFFFF:x}")
    if kind_name != "partition":
        return SifDescriptor(kind_name, number, offset, size, _text(name))
    return SifDescriptor(
        kind_name,
        number,
        offset,
        size,
        _text(name),
        file_system=FILE_SYSTEMS.get(file_system, f"file system {file_system}"),
        primary=role == PRIMARY,
        architecture=ARCHITECTURES.get(_text(arch), ""),
    )


def _architecture(header: bytes, descriptors: tuple[SifDescriptor, ...]) -> str:
    """Return the architecture of the primary partition, which the runtime uses, else that of the header."""
    partition = next((descriptor.architecture for descriptor in descriptors if descriptor.primary), "")
    return partition or ARCHITECTURES.get(_text(header), "unknown")


def _check_length(path: Path, size: int, descriptors: tuple[SifDescriptor, ...]) -> None:
    for descriptor in descriptors:
        if descriptor.offset < 0 or descriptor.size < 0:
            raise _damaged(path, f"object {descriptor.id} has {descriptor.size} bytes at {descriptor.offset}")
    promised = max((descriptor.offset + descriptor.size for descriptor in descriptors), default=0)
    if promised > size:
        raise _truncated(path, promised, size)


def _truncated(path: Path, promised: int, size: int) -> VerificationError:
    found = f"expected {promised} bytes according to its header, found {size}"
    return VerificationError(f"{path}: truncated: {found}", _FETCH_AGAIN)


def _damaged(path: Path, found: str) -> VerificationError:
    return VerificationError(f"{path}: the SIF header is damaged: {found}", _FETCH_AGAIN)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(errors="replace")
