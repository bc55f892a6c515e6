"""The SIF format: its records and the numbers in them, for the reader (sif.py) and the writer (sif_writer.py).

A SIF is little-endian::

    0       launch line [32]  magic [10]  version [3]  architecture [3]  id [16]
    64      created, modified (Unix s), free descriptors, total descriptors,
            descriptor offset and length, data offset and length: eight int64
    4096    descriptors, 585 bytes each:
            int32 type, uint8 used, uint32 id, group, link,
            int64 offset, size, size with padding, created, modified, uid, gid, name [128], extra [384]
    32176   data objects; a partition starts at a multiple of 4096

The extra part of a partition holds: int32 file system, int32 kind, architecture [3].
"""

from __future__ import annotations

import struct

HEADER = struct.Struct("<32s10s3s3s16s8q")
DESCRIPTOR = struct.Struct("<iBIII7q128s384s")
PARTITION_EXTRA = struct.Struct("<ii3s")

MAGIC = b"SIF_MAGIC\0"
MAGIC_AT = 32
"""Offset of the magic number in a SIF."""
VERSION = "01"

ARCHITECTURES = {
    "01": "386",
    "02": "amd64",
    "03": "arm",
    "04": "arm64",
    "05": "ppc64",
    "06": "ppc64le",
    "07": "mips",
    "08": "mipsle",
    "09": "mips64",
    "10": "mips64le",
    "11": "s390x",
    "12": "riscv64",
}
TYPES = {
    0x4001: "definition",
    0x4002: "environment",
    0x4003: "labels",
    0x4004: "partition",
    0x4005: "signature",
    0x4006: "json",
    0x4007: "generic",
    0x4008: "crypto-message",
    0x4009: "sbom",
}

FILE_SYSTEMS = {1: "squashfs", 2: "ext3", 3: "archive", 4: "raw", 5: "encrypted squashfs"}
PRIMARY = 2
"""The kind of the partition that holds the root file system."""
