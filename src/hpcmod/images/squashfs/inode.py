"""Read the inodes of a squashfs 4.0; inodes.py describes them."""

from __future__ import annotations

import struct

from hpcmod.images.squashfs.blocks import Blocks, Cursor
from hpcmod.images.squashfs.format import NO_FRAGMENT, NO_XATTRS, UINT32
from hpcmod.images.squashfs.tree import KINDS

_LONGEST_TARGET = 4095

_HEAD = struct.Struct("<HHHHII")
_DIRECTORY, _LONG_DIRECTORY = struct.Struct("<IIHHI"), struct.Struct("<IIIIHHI")
_FILE, _LONG_FILE = struct.Struct("<IIII"), struct.Struct("<QQQIIII")
_LINK = _DEVICE = struct.Struct("<II")


class Inode:
    """An inode as it is stored: a file, directory, link, ...

    Raises VerificationError if it is damaged.
    """

    kind: str
    """One of KINDS."""
    mode: int
    """Permission bits, 07777."""
    uid: int
    """Number of its owner in the table of ids; so is `gid`."""
    size: int
    """Size of a file or of a directory's listing, in bytes."""
    start: int
    """Offset of a file's first block, or of a directory's metadata block."""
    offset: int
    """Offset of a directory's listing in its metadata block, or of a file's tail in its fragment."""
    sizes_at: tuple[int, int]
    """Metadata block, and offset in it, of the list of a file's block sizes."""
    target: bytes
    """Target of a symlink."""
    device: tuple[int, int]
    """Major and minor number of a device."""
    xattrs: int
    """Number of its set of extended attributes."""

    def __init__(self, blocks: Blocks, reference: int) -> None:
        cursor = Cursor(blocks, blocks.superblock.inodes_at + (reference >> 16), reference & 0xFFFF)
        number, mode, self.uid, self.gid, self.mtime, _ = _HEAD.unpack(cursor.take(_HEAD.size))
        if not 1 <= number <= 2 * len(KINDS):
            raise blocks.damaged(cursor.at, f"inode type {number}")
        self.kind, self.mode = KINDS[(number - 1) % len(KINDS)], mode & 0o7777
        self.size = self.start = self.offset = 0
        self.fragment, self.sizes_at, self.target, self.device = NO_FRAGMENT, (0, 0), b"", (0, 0)
        self.xattrs = NO_XATTRS
        self._read_rest(blocks, cursor, long=number > len(KINDS))

    @property
    def executable(self) -> bool:
        """Whether this is an executable file."""
        return self.kind == "file" and bool(self.mode & 0o111)

    def _read_rest(self, blocks: Blocks, cursor: Cursor, *, long: bool) -> None:
        """Read what follows the head, in its basic or its long form."""
        if self.kind == "dir" and long:
            fields = _LONG_DIRECTORY.unpack(cursor.take(_LONG_DIRECTORY.size))
            _, self.size, self.start, _, _, self.offset, self.xattrs = fields
        elif self.kind == "dir":
            self.start, _, self.size, self.offset, _ = _DIRECTORY.unpack(cursor.take(_DIRECTORY.size))
        elif self.kind == "file":
            if long:
                fields = _LONG_FILE.unpack(cursor.take(_LONG_FILE.size))
                self.start, self.size, _, _, self.fragment, self.offset, self.xattrs = fields
            else:
                self.start, self.fragment, self.offset, self.size = _FILE.unpack(cursor.take(_FILE.size))
            self.sizes_at = cursor.at, cursor.offset
        else:
            self._read_other(blocks, cursor)
            if long:
                (self.xattrs,) = UINT32.unpack(cursor.take(UINT32.size))

    def _read_other(self, blocks: Blocks, cursor: Cursor) -> None:
        if self.kind == "symlink":
            _, length = _LINK.unpack(cursor.take(_LINK.size))
            if not 0 < length <= _LONGEST_TARGET:
                raise blocks.damaged(cursor.at, f"a link of {length} bytes")
            self.target = cursor.take(length)
        elif self.kind in ("block", "char"):
            _, device = _DEVICE.unpack(cursor.take(_DEVICE.size))
            self.device = (device >> 8 & 0xFFF, device & 0xFF | device >> 12 & 0xFFF00)
        else:
            cursor.take(UINT32.size)
