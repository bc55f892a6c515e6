"""Read and decompress the blocks of a squashfs 4.0: superblock, data, fragments, and metadata with the tables."""

from __future__ import annotations

import importlib
import lzma
import os
import zlib
from collections.abc import Callable
from typing import BinaryIO, NamedTuple, TypeVar

from hpcmod.core.errors import BadInputError, LackingError, VerificationError
from hpcmod.core.values.compression import NUMBERS
from hpcmod.images.squashfs.format import (
    FRAGMENT,
    MAGIC,
    METADATA_SIZE,
    STORED_BLOCK,
    STORED_METADATA,
    SUPERBLOCK,
    UINT16,
    UINT64,
)

_LARGEST_BLOCK = 1 << 20  # the format's own limit

_Codec = tuple[Callable[[bytes, int], bytes], type[Exception]]
"""A function from compressed bytes and the largest output size to output, and its exception for damaged input."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Superblock(NamedTuple):
    """The superblock of a squashfs; offsets of tables are those of the lists of their blocks."""

    size: int
    """Bytes in use."""
    block_size: int
    """Uncompressed size of a data block in bytes."""
    fragments: int
    """Number of fragment blocks."""
    codec: int
    """Number of the compressor."""
    flags: int
    ids: int
    """Number of users and groups."""
    root: int
    """Reference to the root's inode."""
    ids_at: int
    xattrs_at: int
    """Offset of the head of the attribute table; all bits set if there is none."""
    inodes_at: int
    """Offset of the inode table."""
    directories_at: int
    """Offset of the directory table."""
    fragments_at: int
    exports_at: int


class Blocks:
    """The blocks of a squashfs in an open file; parameters and errors are those of `squashfs.Squashfs`."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self.name = file.name
        """Name of the file, for messages."""
        self._file, self._offset, self._size = file, offset, size
        self.superblock = self._superblock()
        self._size = self.superblock.size
        self._unpack, self._unpack_fault = _find_codec(self.superblock.codec, self.name)
        self.compression = _CODECS[self.superblock.codec][0]
        """Name of the compressor: gzip, zstd, xz or lz4."""
        self._metadata_cache: dict[int, tuple[bytes, int]] = {}
        self._fragment_cache: dict[int, bytes] = {}

    def tail(self, fragment: int, offset: int, length: int) -> bytes:
        """Return the end of a file from its fragment block, which it shares with other files."""
        data = self._fragment(fragment)[offset : offset + length]
        if len(data) != length:
            raise self.damaged(self.superblock.fragments_at, f"fragment {fragment} ends within a file")
        return data

    def metadata(self, at: int) -> tuple[bytes, int]:
        """Read the metadata block at an offset; return its uncompressed bytes and the offset of the next block."""
        if at not in self._metadata_cache:
            (word,) = UINT16.unpack(self.read(at, 2))
            size = word % STORED_METADATA
            if not 0 < size <= METADATA_SIZE:
                raise self.damaged(at, f"a metadata block of {size} bytes")
            data = self.read(at + 2, size)
            if not word & STORED_METADATA:
                data = self._unpack_at(at, data, METADATA_SIZE)
            if not data:
                raise self.damaged(at, "an empty metadata block")
            make_room(self._metadata_cache, 1024)
            self._metadata_cache[at] = data, at + 2 + size
        return self._metadata_cache[at]

    def damaged(self, at: int, found: str) -> VerificationError:
        """Return the error for damage near an offset."""
        return VerificationError(
            f"{self.name}: the root file system is damaged near byte {self._offset + at}: {found}",
            "Fetch or copy the image again, and compare its sha256 with that at its source.",
        )

    def _superblock(self) -> Superblock:
        fields = SUPERBLOCK.unpack(self.read(0, SUPERBLOCK.size))
        magic, _, _, size, fragments, codec, block_log, flags, ids, major, minor, root, used, *places = fields
        if (magic, major, minor) != (MAGIC, 4, 0):
            raise BadInputError(f"{self.name}: no squashfs 4.0 at byte {self._offset}")
        if size != 1 << min(block_log, 32) or not 4096 <= size <= _LARGEST_BLOCK or used > self._size:
            raise self.damaged(0, f"block size {size}, {used} bytes used of {self._size}")
        return Superblock(used, size, fragments, codec, flags, ids, root, *places)

    def block(self, at: int, word: int, length: int) -> bytes:
        """Read the data block at an offset, of `length` bytes uncompressed; `word` is its size field."""
        if word == 0:  # a hole
            return bytes(length)
        data = self._unpacked(at, word, length)
        if len(data) != length:
            raise self.damaged(at, f"a block of {len(data)} bytes, expected {length}")
        return data

    def fragment_place(self, number: int) -> tuple[int, int]:
        """Return the offset of a fragment block and its size field."""
        table_at, fragments = self.superblock.fragments_at, self.superblock.fragments
        if number >= fragments:
            raise self.damaged(table_at, f"fragment {number} of {fragments}")
        at, word, _ = FRAGMENT.unpack(self.record(table_at, number, FRAGMENT.size))
        return at, word

    def record(self, table_at: int, number: int, size: int) -> bytes:
        """Return a record of a table, given the offset of the list of its blocks and the size of its records."""
        table, offset = divmod(number * size, METADATA_SIZE)
        (place,) = UINT64.unpack(self.read(table_at + table * UINT64.size, UINT64.size))
        return Cursor(self, place, offset).take(size)

    def _fragment(self, number: int) -> bytes:
        if number not in self._fragment_cache:
            at, word = self.fragment_place(number)
            make_room(self._fragment_cache, 16)
            self._fragment_cache[number] = self._unpacked(at, word, self.superblock.block_size)
        return self._fragment_cache[number]

    def _unpacked(self, at: int, word: int, most: int) -> bytes:
        """Read a data or fragment block; bit 24 of its size field means that it is not compressed."""
        size = word % STORED_BLOCK
        if size > self.superblock.block_size:
            raise self.damaged(at, f"a block of {size} packed bytes")
        data = self.read(at, size)
        return data[:most] if word & STORED_BLOCK else self._unpack_at(at, data, most)

    def _unpack_at(self, at: int, data: bytes, most: int) -> bytes:
        try:
            return self._unpack(data, most)
        except self._unpack_fault as err:
            raise self.damaged(at, str(err)) from err

    def read(self, at: int, length: int) -> bytes:
        """Return bytes of the squashfs as they are stored."""
        data = b""
        if at + length <= self._size:
            data = os.pread(self._file.fileno(), length, self._offset + at)
        if len(data) != length:
            raise self.damaged(at, f"{length} bytes expected there, it has {self._size}")
        return data


class Cursor:
    """A reading position in the chain of metadata blocks of a table."""

    def __init__(self, blocks: Blocks, at: int, offset: int) -> None:
        self._blocks = blocks
        self.at = at
        """Offset of the metadata block."""
        self.offset = offset
        """Offset in the uncompressed block."""

    def take(self, length: int) -> bytes:
        """Return the next bytes, and advance."""
        found = bytearray()
        while len(found) < length:
            data, following = self._blocks.metadata(self.at)
            piece = data[self.offset : self.offset + length - len(found)]
            found += piece
            self.offset += len(piece)
            if len(found) < length:
                self.at, self.offset = following, max(0, self.offset - len(data))
        return bytes(found)


def make_room(cache: dict[_Key, _Value], most: int) -> None:
    """Clear a cache with `most` or more entries."""
    if len(cache) >= most:
        cache.clear()


def _gzip() -> _Codec:
    return lambda data, most: zlib.decompressobj().decompress(data, most), zlib.error


def _xz() -> _Codec:
    def unpack(data: bytes, most: int) -> bytes:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=64 * _LARGEST_BLOCK).decompress(data, most)

    return unpack, lzma.LZMAError


def _lz4() -> _Codec:
    block = importlib.import_module("lz4.block")
    return lambda data, most: bytes(block.decompress(data, uncompressed_size=most)), block.LZ4BlockError


def _zstd() -> _Codec:
    zstandard = importlib.import_module("zstandard")

    def unpack(data: bytes, most: int) -> bytes:  # as a stream, because decompress() trusts the size in the data
        reader = zstandard.ZstdDecompressor(max_window_size=8 * _LARGEST_BLOCK).stream_reader(data)
        return bytes(reader.read(most))

    return unpack, zstandard.ZstdError


_CODECS = {
    4: ("xz", _xz),
    5: ("lz4", _lz4),
    **{NUMBERS[name]: (name, make) for name, make in (("gzip", _gzip), ("zstd", _zstd))},
}
"""By number in the superblock: name, and what makes its decompressor."""


def _find_codec(number: int, image: str) -> _Codec:
    convert = "Repack the image: apptainer build NEW.sif OLD.sif"
    if number not in _CODECS:
        name = {2: "lzma", 3: "lzo"}.get(number, f"number {number}")
        raise LackingError(f"{image}: compressed with {name}, which is not supported", f"{convert}.")
    name, make = _CODECS[number]
    try:
        return make()
    except ImportError as err:
        package = err.name.split(".")[0] if err.name else name
        raise LackingError(
            f"{image}: compressed with {name}, but the Python package {package} is not installed",
            f"python3 -m pip install {package}. Or: {convert}.",
        ) from err
