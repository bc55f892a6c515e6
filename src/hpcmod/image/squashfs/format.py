"""The squashfs 4.0 format: records and numbers that its reader (blocks.py, reader.py) and its writer share.

All numbers are little-endian; all places count from the start of the squashfs::

    0             superblock, 96 bytes; behind it the compressor's options as a metadata block, if it has any
    ...           data blocks and fragment blocks, each compressed on its own
    inode table   metadata blocks: uint16 (bit 15: stored as is; else: bytes that follow), unpacked at most 8 KiB
    directories   metadata blocks
    fragments     metadata blocks with 512 records each, then their places as uint64; likewise exports, ids, attributes

A reference into a table is the place of a metadata block from the table's start, and an offset in what it unpacks to.
"""

from __future__ import annotations

import struct

SUPERBLOCK = struct.Struct("<IIIIIHHHHHHQQQQQQQQ")
MAGIC = 0x73717368

METADATA_SIZE = 8192
"""Bytes of a metadata block when it is unpacked; the last of a chain may be shorter."""
STORED_METADATA = 0x8000
STORED_BLOCK = 1 << 24
"""In the word of a data or fragment block: it is stored as it is."""

FRAGMENT = struct.Struct("<QII")
"""Place, word, unused."""
NO_FRAGMENT = 0xFFFFFFFF
"""The fragment of a file that has none."""

RUN = struct.Struct("<III")
"""Entries of a directory whose inodes lie in one metadata block: how many but one, its place, a base number."""
ENTRY = struct.Struct("<HhHH")
"""Offset in that block, number of the inode from the base, basic type, length of the name but one; the name follows."""
LARGEST_RUN = 256

UINT16, UINT32, UINT64 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")
