"""Read the listing of a directory of a squashfs 4.0: names, and references to their inodes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hpcmod.images.squashfs.blocks import Blocks, Cursor
from hpcmod.images.squashfs.format import ENTRY, LARGEST_RUN, RUN
from hpcmod.images.squashfs.inode import Inode

_LARGEST_DIRECTORY = 64 << 20  # two million names; limits the time spent on a damaged size


def read_listing(blocks: Blocks, directory: Inode) -> Iterator[tuple[bytes, int]]:
    """Yield the names in a directory, in the order in which they are stored, and references to their inodes.

    Raises VerificationError if the listing is damaged, or a name in it cannot be a file name.
    """
    directories_at = blocks.superblock.directories_at
    length = directory.size - 3  # the format counts 3 extra bytes for `.` and `..`
    if length > _LARGEST_DIRECTORY:
        raise blocks.damaged(directories_at, f"a directory of {length} bytes")
    cursor = Cursor(blocks, directories_at + directory.start, directory.offset)
    data = cursor.take(max(length, 0))
    at = 0
    try:
        while at < length:
            count, block, _ = RUN.unpack_from(data, at)
            at += RUN.size
            if count >= LARGEST_RUN:
                raise blocks.damaged(cursor.at, f"a run of {count} names")
            for _ in range(count + 1):
                place, _, _, last = ENTRY.unpack_from(data, at)
                name = data[at + ENTRY.size : at + ENTRY.size + last + 1]
                at += ENTRY.size + len(name)
                if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
                    raise blocks.damaged(cursor.at, f"a file named {name[:40]!r}")
                yield name, block << 16 | place
    except struct.error as err:
        raise blocks.damaged(cursor.at, "a directory ends within a name") from err
