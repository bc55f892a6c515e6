"""The squashfs 4.0 format: records and constants shared by the reader (blocks.py, reader.py) and the writer.

All numbers are little-endian; all offsets count from the start of the squashfs::

    0             superblock, 96 bytes; then the compressor's options as a metadata block, if any
    ...           data blocks and fragment blocks, each compressed separately
    inode table   metadata blocks: uint16 (bytes that follow; bit 15: not compressed), uncompressed at most 8 KiB
    directories   metadata blocks
    fragments     metadata blocks with 512 records each, then their offsets as uint64; likewise exports, ids, attributes

A reference into a table is the offset of a metadata block from the table's start, and an offset in its content.
"""

from __future__ import annotations

import struct

SUPERBLOCK = struct.Struct("<IIIIIHHHHHHQQQQQQQQ")
MAGIC = 0x73717368

OPTIONS_FLAG = 0x0400
"""Flag of the superblock: the compressor's options follow it."""

METADATA_SIZE = 8192
"""Uncompressed bytes of a metadata block; the last of a chain may be shorter."""
STORED_METADATA = 0x8000
STORED_BLOCK = 1 << 24
"""Bit in the size field of a data or fragment block: it is not compressed."""

FRAGMENT = struct.Struct("<QII")
"""Offset, size field, unused."""
NO_FRAGMENT = 0xFFFFFFFF
"""Fragment number of a file without a fragment."""

RUN = struct.Struct("<III")
"""Header of directory entries with inodes in the same metadata block: count minus one, its offset, base number."""
ENTRY = struct.Struct("<HhHH")
"""Offset in that block, inode number from the base, basic type, length of the name minus one; then the name."""
LARGEST_RUN = 256

NO_XATTRS = 0xFFFFFFFF
"""The xattr id of an inode without attributes."""
NO_TABLE = 0xFFFFFFFFFFFFFFFF
"""The offset of a missing table."""
XATTR_PREFIXES = (b"user.", b"trusted.", b"security.")
LONGEST_XATTR_NAME, LONGEST_XATTR_VALUE = 255, 65536  # on Linux
PAIR = struct.Struct("<HH")
"""Prefix and length of the name of an attribute."""
XATTR_ID = struct.Struct("<QII")
"""Reference to the first pair of a set, number of pairs, bytes of their names and values."""
XATTR_HEAD = struct.Struct("<QII")
"""Offset of the chain of pairs, number of sets, unused."""

UINT16, UINT32, UINT64 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")
