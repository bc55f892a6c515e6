"""Write a squashfs 4.0 in one pass: contents first, then the tables, and the superblock last.

In this order (format.py describes the format)::

    superblock, 96 bytes; then the compressor's options in an uncompressed metadata block, if any
    data and fragment blocks
    inode table, directory table, fragment table, export table, id table, extended attributes
    zeros up to a multiple of 4096, because a loop device would lose the last bytes otherwise

The same calls with the same version of the compressor's library give the same bytes, for any number of threads.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import BinaryIO

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.images.squashfs.codecs import Bytes, Codec
from hpcmod.images.squashfs.data import BlockStream
from hpcmod.images.squashfs.format import FRAGMENT, MAGIC, NO_TABLE, OPTIONS_FLAG, STORED_METADATA, SUPERBLOCK, UINT16
from hpcmod.images.squashfs.inodes import Inodes
from hpcmod.images.squashfs.tables import write_table
from hpcmod.images.squashfs.tree import FileData, Node

BLOCK_SIZE = 128 << 10

_ALIGNMENT = 4096
_SHORTEST_DIGESTED = 32  # shorter content is used as its own digest
_LARGEST_TIME = 0xFFFFFFFF

_FLAG_NOTHING_PACKED = 0x0001 | 0x0002 | 0x0008 | 0x0100 | 0x0800  # inodes, data, fragments, attributes, ids
_FLAG_DUPLICATES_SOUGHT = 0x0040
_FLAG_EXPORTABLE = 0x0080
_FLAG_NO_XATTRS = 0x0200


class SquashfsWriter:
    """A squashfs that is being written; a context manager that stops its threads.

    `file`: A file open for reading and writing; the squashfs begins at its position.
    `block_size`: Bytes of a data block: a power of two from 4096 to 1 MiB.
    `threads`: Number of compression threads (default: one per available core, at most 16).

    Raises BadInputError if the block size is invalid.
    """

    def __init__(
        self, file: BinaryIO, *, codec: Codec, block_size: int = BLOCK_SIZE, threads: int | None = None
    ) -> None:
        if block_size not in (1 << bits for bits in range(12, 21)):
            raise BadInputError(f"block size {block_size}: expected a power of two from 4096 to 1048576")
        self._file, self.codec, self.block_size = file, codec, block_size
        self._base = file.tell()
        options = codec.options and UINT16.pack(len(codec.options) | STORED_METADATA) + codec.options
        file.write(bytes(SUPERBLOCK.size) + options)
        self._stream = BlockStream(file, SUPERBLOCK.size + len(options), codec, threads=threads)
        self._zeros = bytes(block_size)
        self._fragments: list[FileData] = []
        self._tails: list[bytes] = []
        self._tails_size = 0
        self._short: dict[bytes, FileData] = {}

    def __enter__(self) -> SquashfsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the threads."""
        self._stream.close()

    def add_file(self, size: int, chunks: Iterable[Bytes]) -> FileData:
        """Write the content of a file, unless the same content has already been written.

        The chunks may have any length; the caller must not change them afterwards.

        Raises VerificationError if the chunks have more or fewer than `size` bytes.
        """
        return self._add_short(size, b"".join(chunks)) if size < self.block_size else self._add_long(size, chunks)

    def copy_blocks(self, pieces: Iterable[Bytes]) -> int:
        """Write consecutive blocks that are already compressed; return the offset of the first."""
        self._flush_fragment()
        return self._stream.copy(pieces)

    def add_fragment(self, start: int, word: int) -> int:
        """Add a fragment block that has been copied, with its size field; return its number."""
        self._flush_fragment()
        fragment = FileData(0, sizes=[word])
        fragment.start = start
        self._fragments.append(fragment)
        return len(self._fragments) - 1

    def finish(self, root: Node, *, mtime: int) -> int:
        """Write the tables and the superblock; return the size in bytes, a multiple of 4096, where the file ends.

        Raises BadInputError if the tree has something that squashfs does not support.
        """
        self._flush_fragment()
        self._stream.drain()
        self._short.clear()  # free memory for the tables
        inodes = Inodes(root, self.codec)
        places, used = self._write_tables(inodes)
        end = -(-used // _ALIGNMENT) * _ALIGNMENT
        self._file.write(bytes(end - used))
        self._file.truncate()
        self._file.seek(self._base)
        self._file.write(self._superblock(inodes, places, used, mtime))
        self._file.seek(self._base + end)
        return end

    def _add_short(self, size: int, content: bytes) -> FileData:
        """Add a file that is shorter than a block to a fragment."""
        if len(content) != size:
            raise _wrong_size(size, len(content))
        key = content if size < _SHORTEST_DIGESTED else hashlib.sha256(content).digest()
        data = self._short.get(key)
        if data is None:
            if self._tails_size + size > self.block_size:
                self._flush_fragment()
            data = FileData(size, fragment=len(self._fragments), offset=self._tails_size) if size else FileData(0)
            self._short[key] = data
            self._tails.append(content)
            self._tails_size += size
        return data

    def _flush_fragment(self) -> None:
        if self._tails_size:
            fragment = FileData(self._tails_size, sizes=[0])
            self._fragments.append(fragment)
            self._stream.add(b"".join(self._tails), fragment, 0)
            self._tails, self._tails_size = [], 0

    def _add_long(self, size: int, chunks: Iterable[Bytes]) -> FileData:
        sizes: list[int] = []
        data, found = FileData(size, sizes=sizes), 0
        for block in _cut(chunks, self.block_size):
            found += len(block)
            if found > size:
                break
            sizes.append(0)
            if self._is_hole(block):
                data.holes += len(block)
            else:
                self._stream.add(block, data, len(sizes) - 1)
        if found != size:
            raise _wrong_size(size, found)
        self._stream.end(data)
        return data

    def _is_hole(self, block: Bytes) -> bool:
        return not block[0] and not block[-1] and bytes(block) == self._zeros[: len(block)]

    def _write_tables(self, inodes: Inodes) -> tuple[list[int], int]:
        """Write all tables; return their offsets in the order of the superblock, and the end of the last."""
        inodes_at = self._stream.at
        listings_at = inodes_at + self._file.write(inodes.inodes.close())
        at = listings_at + self._file.write(inodes.listings.close())
        fragments = b"".join(FRAGMENT.pack(fragment.start, fragment.sizes[0], 0) for fragment in self._fragments)
        fragments_at, at = self._write_table(at, fragments)
        exports_at, at = self._write_table(at, struct.pack(f"<{len(inodes.references)}Q", *inodes.references))
        ids_at, at = self._write_table(at, inodes.ids.records())
        xattrs_at, end = inodes.xattrs.write(self._file, at)
        return [ids_at, xattrs_at, inodes_at, listings_at, fragments_at, exports_at], end

    def _write_table(self, at: int, records: bytes) -> tuple[int, int]:
        return write_table(self._file, at, records, self.codec) if records else (NO_TABLE, at)

    def _superblock(self, inodes: Inodes, places: list[int], used: int, mtime: int) -> bytes:
        flags = _FLAG_DUPLICATES_SOUGHT | _FLAG_EXPORTABLE
        flags |= OPTIONS_FLAG if self.codec.options else 0
        flags |= _FLAG_NO_XATTRS if places[1] == NO_TABLE else 0
        flags |= _FLAG_NOTHING_PACKED if self.codec.name == "none" else 0
        counts = (len(inodes.references), min(max(mtime, 0), _LARGEST_TIME), self.block_size, len(self._fragments))
        block_log = self.block_size.bit_length() - 1
        kinds = (self.codec.number, block_log, flags, len(inodes.ids), 4, 0)
        return SUPERBLOCK.pack(MAGIC, *counts, *kinds, inodes.root, used, *places)


def _cut(chunks: Iterable[Bytes], length: int) -> Iterator[Bytes]:
    """Split content into blocks; a block within one chunk is not copied."""
    pieces: list[Bytes] = []
    have = 0
    for chunk in chunks:
        view = memoryview(chunk)
        at = 0
        while have + len(view) - at >= length:
            piece = view[at : at + length - have]
            at += len(piece)
            yield b"".join((*pieces, piece)) if pieces else piece
            pieces, have = [], 0
        if at < len(view):
            pieces.append(view[at:])
            have += len(view) - at
    if pieces:
        yield b"".join(pieces)


def _wrong_size(size: int, found: int) -> VerificationError:
    return VerificationError(f"a file of {size} bytes has {'more' if found > size else f'only {found}'}")
