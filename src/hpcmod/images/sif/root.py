"""Open the root file system of a SIF."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcmod.images.sif.reader import open_sif, read_sif, squashfs_partition
from hpcmod.images.squashfs.reader import Squashfs


@contextmanager
def open_root(path: Path | str) -> Iterator[Squashfs]:
    """Open the root file system of a SIF for reading.

    Raises NotFoundError, BadInputError, VerificationError if there is no such file, it is not a SIF with squashfs, or
    it is truncated.
    """
    sif = read_sif(path)
    partition = squashfs_partition(sif)
    with open_sif(sif.path) as file:
        yield Squashfs(file, partition.offset, partition.size)
