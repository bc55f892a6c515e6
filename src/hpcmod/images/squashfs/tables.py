"""Write the metadata of a squashfs 4.0: chains of compressed 8 KiB blocks, and the tables of ids, attributes, offsets.

A table is a chain of metadata blocks, followed by the offsets of these blocks as uint64. Records in them::

    fragment   uint64 offset, uint32 size field (compressed size, bit 24: not compressed), uint32 unused
    export     uint64 reference to the inode with this number, from 1
    id         uint32 user or group
    xattr id   uint64 reference to its first pair, uint32 pairs, uint32 bytes of their names and values

All attributes are in a separate chain; a pair is uint16 prefix, uint16 length, name without prefix, uint32 length,
value. Before the offsets of the xattr ids are uint64 offset of that chain, uint32 number of ids, uint32 unused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import BinaryIO

from hpcmod.core.errors import BadInputError
from hpcmod.images.squashfs.codecs import Bytes, Codec
from hpcmod.images.squashfs.format import (
    LONGEST_XATTR_NAME,
    LONGEST_XATTR_VALUE,
    METADATA_SIZE,
    NO_TABLE,
    PAIR,
    STORED_METADATA,
    UINT16,
    UINT32,
    XATTR_HEAD,
    XATTR_ID,
    XATTR_PREFIXES,
)

_MOST_IDS = 65535  # the superblock counts them in 16 bits
_LARGEST_ID = 0xFFFFFFFF
_PREFIXES = {prefix: number for number, prefix in enumerate(XATTR_PREFIXES)}


class Metadata:
    """A chain of metadata blocks, kept in memory until it is written."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.packed = bytearray()
        """The full blocks; after `close` all blocks."""
        self.buffer = bytearray()
        """Bytes of the next block; `append` keeps it shorter than a block."""
        self.places: list[int] = []
        """Offset of each block from the start of the chain."""

    def append(self, data: Bytes) -> None:
        """Append bytes."""
        self.append_all((data,))

    def append_all(self, pieces: Iterable[Bytes]) -> list[int]:
        """Append pieces; return the reference of each."""
        references = []
        base, used = len(self.packed) << 16, len(self.buffer)
        for piece in pieces:
            references.append(base | used)
            self.buffer += piece
            used += len(piece)
            while used >= METADATA_SIZE:
                self._pack()
                base, used = len(self.packed) << 16, len(self.buffer)
        return references

    def reference(self) -> int:
        """Return the reference of the next byte: its block position shifted by 16, and the offset in the block."""
        return len(self.packed) << 16 | len(self.buffer)

    def close(self) -> bytes:
        """Compress the rest, and return the complete chain."""
        if self.buffer:
            self._pack()
        return bytes(self.packed)

    def _pack(self) -> None:
        block = bytes(self.buffer[:METADATA_SIZE])
        del self.buffer[:METADATA_SIZE]
        packed = self._codec.compress(block)
        self.places.append(len(self.packed))
        if len(packed) < len(block):
            self.packed += UINT16.pack(len(packed)) + packed
        else:
            self.packed += UINT16.pack(len(block) | STORED_METADATA) + block


def write_table(file: BinaryIO, at: int, records: Bytes, codec: Codec, head: bytes = b"") -> tuple[int, int]:
    """Write the records of a table, then `head`, then its block offsets; return the offset of the head, and the end.

    `at` is the offset in the squashfs of the file's position.
    """
    table = Metadata(codec)
    table.append(records)
    chain = table.close()
    file.write(chain)
    file.write(head)
    file.write(struct.pack(f"<{len(table.places)}Q", *(at + place for place in table.places)))
    start = at + len(chain)
    return start, start + len(head) + 8 * len(table.places)


class Ids(dict[int, int]):
    """The users and groups of the image: their numbers, given as they are first asked for.

    Asking raises BadInputError if a user or group is out of range, or if there are too many for the format.
    """

    def __missing__(self, identity: int) -> int:
        if not 0 <= identity <= _LARGEST_ID:
            raise BadInputError(f"user or group {identity}: expected 0 to {_LARGEST_ID}")
        if len(self) == _MOST_IDS:
            raise BadInputError(f"more than {_MOST_IDS} different users and groups, the limit of squashfs")
        return self.setdefault(identity, len(self))

    def records(self) -> bytes:
        """Return the records of the table."""
        return struct.pack(f"<{len(self)}I", *self)


class Xattrs:
    """The sets of extended attributes of the image; nodes with equal sets share one."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._pairs = Metadata(codec)
        self._records = bytearray()
        self._numbers: dict[tuple[tuple[bytes, bytes], ...], int] = {}

    def number(self, xattrs: tuple[tuple[bytes, bytes], ...]) -> int:
        """Return the number of a set of attributes; the last value of a duplicate attribute wins.

        Raises BadInputError if a name is not below user., trusted. or security., or a name or value is longer than
        Linux allows.
        """
        if xattrs not in self._numbers:
            stored = tuple(sorted(dict(xattrs).items()))
            if stored not in self._numbers:
                self._numbers[stored] = self._add(stored)
            self._numbers[xattrs] = self._numbers[stored]
        return self._numbers[xattrs]

    def write(self, file: BinaryIO, at: int) -> tuple[int, int]:
        """Write the attributes and their table, if any; return the offset of the table (or NO_TABLE), and the end."""
        if not self._records:
            return NO_TABLE, at
        chain = self._pairs.close()
        file.write(chain)
        head = XATTR_HEAD.pack(at, len(self._records) // XATTR_ID.size, 0)
        return write_table(file, at + len(chain), self._records, self._codec, head)

    def _add(self, xattrs: tuple[tuple[bytes, bytes], ...]) -> int:
        reference, size = self._pairs.reference(), 0
        for name, value in xattrs:
            prefix, dot, rest = name.partition(b".")
            kind = _PREFIXES.get(prefix + dot)
            if (
                kind is None
                or not rest
                or len(name) > LONGEST_XATTR_NAME
                or len(value) > LONGEST_XATTR_VALUE
                or b"\0" in name
            ):
                shown = f"{name[:40]!r} with {len(value)} bytes"
                raise BadInputError(f"an extended attribute that an image cannot have: {shown}")
            self._pairs.append(PAIR.pack(kind, len(rest)) + rest + UINT32.pack(len(value)) + value)
            size += len(name) + 1 + len(value)  # as in mksquashfs: the name with its final NUL
        self._records += XATTR_ID.pack(reference, len(xattrs), size)
        return len(self._records) // XATTR_ID.size - 1
