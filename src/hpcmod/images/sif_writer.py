"""Write a SIF around a root file system that is streamed into it; sif/format.py describes the format.

The header is written last, so that a truncated file is not a SIF. Nothing depends on the clock, user or machine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.checksums import BLOCK, hash_range
from hpcmod.images.sif.format import ARCHITECTURES, DESCRIPTOR, HEADER, MAGIC, PARTITION_EXTRA, PRIMARY, TYPES, VERSION

_LAUNCH = b"#!/usr/bin/env run-singularity\n"
_DESCRIPTORS_AT = 4096
_MOST_OBJECTS = 48  # as Apptainer reserves
_DATA_AT = _DESCRIPTORS_AT + _MOST_OBJECTS * DESCRIPTOR.size
_ALIGNMENT = 4096  # of a partition, which the kernel mounts in place
_GROUP = 0xF0000001  # group 1
_LONGEST_NAME = 127
_SQUASHFS = 1

_CODES = {name: code.encode() for code, name in ARCHITECTURES.items()}
_NUMBERS = {name: number for number, name in TYPES.items()}


@dataclass(frozen=True)
class SifObject:
    """A data object before the root file system."""

    kind: str
    """definition, labels, json, generic, ...: any type of the format except a partition."""
    name: str
    """Name of at most 127 bytes, by which Apptainer finds `inspect-metadata.json` and `oci-config.json`."""
    data: bytes


def write_sif(
    file: BinaryIO,
    *,
    architecture: str,
    created: int,
    uuid: bytes,
    objects: Sequence[SifObject],
    write_partition: Callable[[BinaryIO], int],
) -> None:
    """Write a SIF with a squashfs as its primary partition, which is its last object.

    `file`: An empty file open for reading and writing; the caller syncs and closes it.
    `architecture`: GOARCH name: amd64, arm64, ...
    `created`: Time of creation in Unix seconds.
    `uuid`: The SIF's UUID, 16 bytes.
    `write_partition`: Writes the squashfs at the file's current position, and returns its size in bytes.

    Raises BadInputError if an object or the architecture is not supported by the SIF format.
    """
    if architecture not in _CODES:
        known = ", ".join(_CODES)
        raise BadInputError(f"a SIF cannot be for the architecture {architecture!r}", f"Known are: {known}.")
    if len(objects) >= _MOST_OBJECTS or len(uuid) != 16:
        raise BadInputError(f"{len(objects)} objects and an id of {len(uuid)} bytes: expected fewer than 48, and 16")
    descriptors, end = _write_objects(file, objects, created)
    start = -(-end // _ALIGNMENT) * _ALIGNMENT
    file.seek(start)
    size = write_partition(file)
    extra = PARTITION_EXTRA.pack(_SQUASHFS, PRIMARY, _CODES[architecture])
    span = (start, size, start + size - end)
    descriptors.append(_descriptor("partition", len(objects) + 1, span, created, "", extra))
    head = _header(architecture, created, uuid, len(descriptors), start + size - _DATA_AT)
    file.seek(0)
    file.write(head.ljust(_DESCRIPTORS_AT, b"\0") + b"".join(descriptors).ljust(_DATA_AT - _DESCRIPTORS_AT, b"\0"))
    file.flush()


def sync_and_hash(file: BinaryIO) -> str:
    """Sync a finished file to disk and hash it at the same time; return its sha256.

    The header is known last but hashed first, so the file cannot be hashed while it is written. Reading it back from
    the page cache takes up to a second per gigabyte, most of which the sync takes anyway.
    """
    file.flush()
    sha256 = hashlib.sha256()
    with ThreadPoolExecutor(1, thread_name_prefix="fsync") as pool:
        synced = pool.submit(os.fsync, file.fileno())
        hash_range(sha256, file.fileno(), 0, os.fstat(file.fileno()).st_size, bytearray(BLOCK))
        synced.result()
    return sha256.hexdigest()


def _write_objects(file: BinaryIO, objects: Sequence[SifObject], created: int) -> tuple[list[bytes], int]:
    """Write the objects one after another; return their descriptors and their end."""
    descriptors, at = [], _DATA_AT
    file.seek(at)
    for number, entry in enumerate(objects, 1):
        file.write(entry.data)
        span = (at, len(entry.data), len(entry.data))
        descriptors.append(_descriptor(entry.kind, number, span, created, entry.name, b""))
        at += len(entry.data)
    return descriptors, at


def _descriptor(kind: str, number: int, span: tuple[int, int, int], created: int, name: str, extra: bytes) -> bytes:
    """Make a descriptor; `span` is offset, size, and size including the padding before it."""
    if kind not in _NUMBERS or len(name.encode()) > _LONGEST_NAME:
        raise BadInputError(f"a SIF cannot contain an object of kind {kind!r} named {name!r}")
    return DESCRIPTOR.pack(_NUMBERS[kind], 1, number, _GROUP, 0, *span, created, created, 0, 0, name.encode(), extra)


def _header(architecture: str, created: int, uuid: bytes, used: int, length: int) -> bytes:
    table = (_MOST_OBJECTS - used, _MOST_OBJECTS, _DESCRIPTORS_AT, _MOST_OBJECTS * DESCRIPTOR.size)
    code = _CODES[architecture]
    return HEADER.pack(_LAUNCH, MAGIC, VERSION.encode(), code, uuid, created, created, *table, _DATA_AT, length)
