"""Read the extended attributes of a squashfs 4.0; tables.py describes the tables."""

from __future__ import annotations

from hpcmod.core.errors import VerificationError
from hpcmod.images.squashfs.blocks import Blocks, Cursor
from hpcmod.images.squashfs.format import (
    LONGEST_XATTR_NAME,
    LONGEST_XATTR_VALUE,
    NO_TABLE,
    NO_XATTRS,
    PAIR,
    UINT32,
    UINT64,
    XATTR_HEAD,
    XATTR_ID,
    XATTR_PREFIXES,
)

_ELSEWHERE = 0x100  # flag of a pair: its value is a reference to the real one
_MOST_PAIRS = 1024
_LARGEST_SET = 1 << 20

Xattrs = tuple[tuple[bytes, bytes], ...]


class Attributes:
    """The sets of extended attributes of a squashfs."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._at = blocks.superblock.xattrs_at
        self._known: dict[int, Xattrs] = {NO_XATTRS: ()}
        self._pairs_at = self._count = 0
        if self._at != NO_TABLE:
            self._pairs_at, self._count, _ = XATTR_HEAD.unpack(blocks.read(self._at, XATTR_HEAD.size))

    def find(self, number: int) -> Xattrs:
        """Return the set with a number: full names and values, in stored order; empty for an inode without any.

        Raises VerificationError if there is no such set, or it is damaged.
        """
        if number not in self._known:
            if number >= self._count:
                raise self._damaged(f"attribute set {number} of only {self._count}")
            self._known[number] = self._read_set(number)
        return self._known[number]

    def _read_set(self, number: int) -> Xattrs:
        record = self._blocks.record(self._at + XATTR_HEAD.size, number, XATTR_ID.size)
        reference, count, _ = XATTR_ID.unpack(record)
        if count > _MOST_PAIRS:
            raise self._damaged(f"{count} attributes of one file")
        cursor = self._cursor(reference)
        pairs: list[tuple[bytes, bytes]] = []
        size = 0
        for _ in range(count):
            pairs.append(self._read_pair(cursor))
            size += len(pairs[-1][1])
            if size > _LARGEST_SET:  # values may be shared, so a small table can represent many bytes
                raise self._damaged(f"attributes of one file with more than {_LARGEST_SET} bytes")
        return tuple(pairs)

    def _read_pair(self, cursor: Cursor) -> tuple[bytes, bytes]:
        kind, length = PAIR.unpack(cursor.take(PAIR.size))
        prefix = kind % _ELSEWHERE
        if prefix >= len(XATTR_PREFIXES) or length > LONGEST_XATTR_NAME:
            raise self._damaged(f"an attribute of type {kind} with a name of {length} bytes")
        name = XATTR_PREFIXES[prefix] + cursor.take(length)
        value = self._read_value(cursor)
        if kind & _ELSEWHERE:
            if len(value) != UINT64.size:
                raise self._damaged(f"a reference of {len(value)} bytes to the value of an attribute")
            value = self._read_value(self._cursor(UINT64.unpack(value)[0]))
        return name, value

    def _read_value(self, cursor: Cursor) -> bytes:
        (length,) = UINT32.unpack(cursor.take(UINT32.size))
        if length > LONGEST_XATTR_VALUE:
            raise self._damaged(f"an attribute value of {length} bytes")
        return cursor.take(length)

    def _cursor(self, reference: int) -> Cursor:
        return Cursor(self._blocks, self._pairs_at + (reference >> 16), reference & 0xFFFF)

    def _damaged(self, found: str) -> VerificationError:
        return self._blocks.damaged(self._at, found)
