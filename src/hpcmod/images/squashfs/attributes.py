"""Read the owners and the extended attributes of a squashfs 4.0; tables.py describes the tables."""

from __future__ import annotations

import struct

from hpcmod.core.errors import VerificationError
from hpcmod.images.squashfs.blocks import Blocks, Cursor
from hpcmod.images.squashfs.format import UINT32, UINT64

_NO_XATTRS = 0xFFFFFFFF
_NO_TABLE = 0xFFFFFFFFFFFFFFFF
_PREFIXES = (b"user.", b"trusted.", b"security.")
_ELSEWHERE = 0x100  # flag of a pair: its value is a reference to the real one
_MOST_PAIRS = 1024
_LONGEST_NAME, _LONGEST_VALUE = 255, 65536
_LARGEST_SET = 1 << 20

_PAIR = struct.Struct("<HH")
_XATTR_ID = struct.Struct("<QII")
_XATTR_HEAD = struct.Struct("<QII")

Xattrs = tuple[tuple[bytes, bytes], ...]


class Owners:
    """The users and groups of a squashfs."""

    def __init__(self, blocks: Blocks) -> None:
        found = blocks.superblock
        self._blocks = blocks
        self._ids = [UINT32.unpack(blocks.record(found.ids_at, number, 4))[0] for number in range(found.ids)]

    def find(self, number: int) -> int:
        """Return the user or group with a number.

        Raises
        ------
        VerificationError
            If there is no such number.
        """
        if number >= len(self._ids):
            raise self._blocks.damaged(self._blocks.superblock.ids_at, f"owner {number} of only {len(self._ids)}")
        return int(self._ids[number])


class Attributes:
    """The sets of extended attributes of a squashfs."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._at = blocks.superblock.xattrs_at
        self._known: dict[int, Xattrs] = {_NO_XATTRS: ()}
        self._pairs_at = self._count = 0
        if self._at != _NO_TABLE:
            self._pairs_at, self._count, _ = _XATTR_HEAD.unpack(blocks.read(self._at, _XATTR_HEAD.size))

    def find(self, number: int) -> Xattrs:
        """Return the set with a number: full names and values, in stored order; empty for an inode without any.

        Raises
        ------
        VerificationError
            If there is no such set, or it is damaged.
        """
        if number not in self._known:
            if number >= self._count:
                raise self._damaged(f"attribute set {number} of only {self._count}")
            self._known[number] = self._read_set(number)
        return self._known[number]

    def _read_set(self, number: int) -> Xattrs:
        record = self._blocks.record(self._at + _XATTR_HEAD.size, number, _XATTR_ID.size)
        reference, count, _ = _XATTR_ID.unpack(record)
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
        kind, length = _PAIR.unpack(cursor.take(_PAIR.size))
        prefix = kind % _ELSEWHERE
        if prefix >= len(_PREFIXES) or length > _LONGEST_NAME:
            raise self._damaged(f"an attribute of type {kind} with a name of {length} bytes")
        name = _PREFIXES[prefix] + cursor.take(length)
        value = self._read_value(cursor)
        if kind & _ELSEWHERE:
            if len(value) != UINT64.size:
                raise self._damaged(f"a reference of {len(value)} bytes to the value of an attribute")
            value = self._read_value(self._cursor(UINT64.unpack(value)[0]))
        return name, value

    def _read_value(self, cursor: Cursor) -> bytes:
        (length,) = UINT32.unpack(cursor.take(UINT32.size))
        if length > _LONGEST_VALUE:
            raise self._damaged(f"an attribute value of {length} bytes")
        return cursor.take(length)

    def _cursor(self, reference: int) -> Cursor:
        return Cursor(self._blocks, self._pairs_at + (reference >> 16), reference & 0xFFFF)

    def _damaged(self, found: str) -> VerificationError:
        return self._blocks.damaged(self._at, found)
