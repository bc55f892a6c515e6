"""Read and unpack the blocks of a squashfs 4.0: superblock, data, fragments, and the metadata in which tables lie."""

from __future__ import annotations

import importlib
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from hpcmod.errors import BadInputError, LackingError, VerificationError
from hpcmod.image.squashfs.format import (
    FRAGMENT,
    MAGIC,
    METADATA_SIZE,
    STORED_BLOCK,
    STORED_METADATA,
    SUPERBLOCK,
    UINT16,
    UINT32,
    UINT64,
)

_FRAGMENTS_A_BLOCK = 512
_LARGEST_BLOCK = 1 << 20  # the format's own limit

_Codec = tuple[Callable[[bytes, int], bytes], type[Exception]]
"""Turns packed bytes, and the most that may come out, into what comes out; and what it raises at damage."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Superblock:
    """What the first bytes say about the rest."""

    size: int
    """Bytes in use."""
    block_size: int
    """Bytes of a data block when it is unpacked."""
    fragments: int
    """How many fragment blocks there are."""
    codec: int
    """Number of the compressor."""
    root: int
    """Reference of the root's inode."""
    inodes_at: int
    """Place of the inode table."""
    directories_at: int
    """Place of the directory table."""
    fragments_at: int
    """Place of the list of the fragment table's blocks."""


class Blocks:
    """The blocks of a squashfs in an open file; parameters and errors are those of `squashfs.Squashfs`."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self.name = file.name
        """Of the file, for messages."""
        self._file, self._offset, self._size = file, offset, size
        self.superblock = self._superblock()
        self._size = self.superblock.size
        self._unpack, self._unpack_fault = _find_codec(self.superblock.codec, self.name)
        self._metadata_cache: dict[int, tuple[bytes, int]] = {}
        self._fragment_cache: dict[int, bytes] = {}

    def data(self, start: int, length: int, sizes: Cursor) -> Iterator[bytes]:
        """Return so many bytes of a file from its own blocks, a block at a time.

        Parameters
        ----------
        start
            Place of the first block; the others follow.
        sizes
            Where their packed sizes are listed.
        """
        at, left = start, length
        while left:
            (word,) = UINT32.unpack(sizes.take(UINT32.size))
            data = self.block(at, word, min(left, self.superblock.block_size))
            yield data
            at += word % STORED_BLOCK
            left -= len(data)

    def tail(self, fragment: int, offset: int, length: int) -> bytes:
        """Return the end of a file, which lies with those of others in a fragment block."""
        data = self._fragment(fragment)[offset : offset + length]
        if len(data) != length:
            raise self.damaged(self.superblock.fragments_at, f"fragment {fragment} ends within a file")
        return data

    def metadata(self, at: int) -> tuple[bytes, int]:
        """Read the metadata block at a place; give what it unpacks to and the place of the next."""
        if at not in self._metadata_cache:
            (word,) = UINT16.unpack(self._read(at, 2))
            size = word % STORED_METADATA
            if not 0 < size <= METADATA_SIZE:
                raise self.damaged(at, f"a metadata block of {size} bytes")
            data = self._read(at + 2, size)
            if not word & STORED_METADATA:
                data = self._unpack_at(at, data, METADATA_SIZE)
            if not data:
                raise self.damaged(at, "an empty metadata block")
            make_room(self._metadata_cache, 1024)
            self._metadata_cache[at] = data, at + 2 + size
        return self._metadata_cache[at]

    def damaged(self, at: int, found: str) -> VerificationError:
        """Make the error for damage near a place."""
        return VerificationError(
            f"{self.name}: the root file system is damaged near byte {self._offset + at}: {found}",
            "Fetch or copy the image again, and compare its sha256 with the one at its source.",
        )

    def _superblock(self) -> Superblock:
        fields = SUPERBLOCK.unpack(self._read(0, SUPERBLOCK.size))
        magic, _, _, block_size, fragments, codec, block_log, _, _, major, minor, root, used, *places = fields
        if (magic, major, minor) != (MAGIC, 4, 0):
            raise BadInputError(f"{self.name}: at byte {self._offset}: no squashfs 4.0")
        if block_size != 1 << min(block_log, 32) or not 4096 <= block_size <= _LARGEST_BLOCK or used > self._size:
            raise self.damaged(0, f"block size {block_size}, {used} bytes used of {self._size}")
        _, _, inodes_at, directories_at, fragments_at, _ = places
        return Superblock(used, block_size, fragments, codec, root, inodes_at, directories_at, fragments_at)

    def block(self, at: int, word: int, length: int) -> bytes:
        """Read the data block at a place, which unpacks to so many bytes; `word` is its size as the format packs it."""
        if word == 0:  # a hole
            return bytes(length)
        data = self._unpacked(at, word, length)
        if len(data) != length:
            raise self.damaged(at, f"a block of {len(data)} bytes, expected {length}")
        return data

    def _fragment(self, number: int) -> bytes:
        table_at, fragments = self.superblock.fragments_at, self.superblock.fragments
        if number >= fragments:
            raise self.damaged(table_at, f"fragment {number} of {fragments}")
        if number not in self._fragment_cache:
            table, index = divmod(number, _FRAGMENTS_A_BLOCK)
            (place,) = UINT64.unpack(self._read(table_at + table * UINT64.size, UINT64.size))
            at, word, _ = FRAGMENT.unpack(Cursor(self, place, index * FRAGMENT.size).take(FRAGMENT.size))
            make_room(self._fragment_cache, 16)
            self._fragment_cache[number] = self._unpacked(at, word, self.superblock.block_size)
        return self._fragment_cache[number]

    def _unpacked(self, at: int, word: int, most: int) -> bytes:
        """Read a data or fragment block; bit 24 of its size says that it is stored as it is."""
        size = word % STORED_BLOCK
        if size > self.superblock.block_size:
            raise self.damaged(at, f"a block of {size} packed bytes")
        data = self._read(at, size)
        return data[:most] if word & STORED_BLOCK else self._unpack_at(at, data, most)

    def _unpack_at(self, at: int, data: bytes, most: int) -> bytes:
        try:
            return self._unpack(data, most)
        except self._unpack_fault as err:
            raise self.damaged(at, str(err)) from err

    def _read(self, at: int, length: int) -> bytes:
        data = b""
        if at + length <= self._size:
            data = os.pread(self._file.fileno(), length, self._offset + at)
        if len(data) != length:
            raise self.damaged(at, f"{length} bytes expected there, it has {self._size}")
        return data


class Cursor:
    """A place in the chain of metadata blocks of a table, from which bytes are taken."""

    def __init__(self, blocks: Blocks, at: int, offset: int) -> None:
        self._blocks = blocks
        self.at = at
        """Place of the metadata block."""
        self.offset = offset
        """In what that block unpacks to."""

    def take(self, length: int) -> bytes:
        """Return the next bytes, and go on behind them."""
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
    """Empty a cache that holds so many."""
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

    def unpack(data: bytes, most: int) -> bytes:  # a stream, for decompress() believes the size that the data claim
        reader = zstandard.ZstdDecompressor(max_window_size=8 * _LARGEST_BLOCK).stream_reader(data)
        return bytes(reader.read(most))

    return unpack, zstandard.ZstdError


_CODECS = {1: ("gzip", _gzip), 4: ("xz", _xz), 5: ("lz4", _lz4), 6: ("zstd", _zstd)}


def _find_codec(number: int, image: str) -> _Codec:
    convert = 'Repack the image: apptainer build --mksquashfs-args "-comp zstd" NEW.sif OLD.sif'
    if number not in _CODECS:
        name = {2: "lzma", 3: "lzo"}.get(number, f"number {number}")
        raise LackingError(f"{image}: compressed with {name}, which cannot be read here", f"{convert}.")
    name, make = _CODECS[number]
    try:
        return make()
    except ImportError as err:
        package = err.name.split(".")[0] if err.name else name
        raise LackingError(
            f"{image}: compressed with {name}, and this Python has no package {package}",
            f"python3 -m pip install {package}. Or: {convert}.",
        ) from err
