"""Read a squashfs 4.0 that lies at an offset in a file, lazily: only the directories and blocks that are asked for.

Ours, because the readers on the registry either scan the whole tree before they answer (200,000 files in a LUMI image)
and fail on extended attributes behind an offset, or have a licence that cannot be joined with EasyBuild's.

All numbers are little-endian; all places count from the start of the squashfs::

    0             superblock, 96 bytes
    ...           data blocks and fragment blocks, each compressed on its own
    inode table   metadata blocks: uint16 (bit 15: stored as is; else: bytes that follow), unpacked at most 8 KiB;
    directories   a reference into a table is the place of a block and an offset in what it unpacks to
    fragments     uint64 places of metadata blocks with 512 records each

Extended attributes, owners and times are not read.
"""

from __future__ import annotations

import importlib
import lzma
import os
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from hpcmod.errors import BadInputError, LackingError, NotFoundError, VerificationError

_SUPERBLOCK = struct.Struct("<IIIIIHHHHHHQQQQQQQQ")
_MAGIC = 0x73717368
_METADATA_SIZE = 8192
_STORED_METADATA = 0x8000
_STORED_BLOCK = 1 << 24
_NO_FRAGMENT = 0xFFFFFFFF
_FRAGMENTS_A_BLOCK = 512
_LARGEST_BLOCK = 1 << 20  # the format's own limit
_LARGEST_DIRECTORY = 64 << 20  # two million names; a damaged size must not keep us busy for long
_LARGEST_TARGET = 65536
_LARGEST_RUN = 256
_MOST_LINKS = 40  # as the kernel follows

_INODE = struct.Struct("<HHHHII")
_DIRECTORY = struct.Struct("<IIHHI")
_LONG_DIRECTORY = struct.Struct("<IIIIHHI")
_FILE = struct.Struct("<IIII")
_LONG_FILE = struct.Struct("<QQQIIII")
_LINK = struct.Struct("<II")
_RUN = struct.Struct("<IIi")
_ENTRY = struct.Struct("<HhHH")
_FRAGMENT = struct.Struct("<QII")
_UINT16, _UINT32, _UINT64 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")

_KINDS = ("directory", "file", "link", "block device", "character device", "fifo", "socket")

_Codec = tuple[Callable[[bytes, int], bytes], type[Exception]]
"""Turns packed bytes, and the most that may come out, into what comes out; and what it raises at damage."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Inode:
    """What a name stands for."""

    kind: str
    """`directory`, `file`, `link`, `block device`, `character device`, `fifo` or `socket`."""
    mode: int
    """Permission bits."""
    size: int = 0
    """Bytes of a file, or of a directory's listing."""
    start: int = 0
    """Place of a file's first block, or of a directory's metadata block."""
    offset: int = 0
    """Of a directory's listing in its metadata block, or of a file's tail in its fragment."""
    fragment: int = _NO_FRAGMENT
    sizes_at: tuple[int, int] = (0, 0)
    """Of a file: metadata block, and offset in it, where the sizes of its blocks are listed."""
    target: str = ""
    """Of a link."""

    @property
    def executable(self) -> bool:
        """Whether this is a file that somebody may execute."""
        return self.kind == "file" and bool(self.mode & 0o111)


class Squashfs:
    """A squashfs in an open file.

    Paths are absolute paths inside it, where links are followed too. Names that are not UTF-8 hold surrogate escapes.

    Parameters
    ----------
    file
        Open for reading; it stays the caller's to close.
    offset
        Where the squashfs begins, in bytes.
    size
        Bytes that belong to it.

    Raises
    ------
    BadInputError
        If there is no squashfs 4.0.
    VerificationError
        From here and from every method: if what is read is damaged.
    LackingError
        If it is compressed in a way that this Python cannot unpack.
    """

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._file, self._offset, self._size = file, offset, size
        fields = _SUPERBLOCK.unpack(self._read(0, _SUPERBLOCK.size))
        magic, _, _, block_size, self._fragments, codec, block_log, _, _, major, minor, root, used, *places = fields
        if (magic, major, minor) != (_MAGIC, 4, 0):
            raise BadInputError(f"{file.name}: at byte {offset}: no squashfs 4.0")
        if block_size != 1 << min(block_log, 32) or not 4096 <= block_size <= _LARGEST_BLOCK or used > size:
            raise self._damaged(0, f"block size {block_size}, {used} bytes used of {size}")
        self._size, self._block_size = used, block_size
        _, _, self._inodes_at, self._directories_at, self._fragments_at, _ = places
        self._unpack, self._unpack_fault = _find_codec(codec, file.name)
        self._metadata_cache: dict[int, tuple[bytes, int]] = {}
        self._fragment_cache: dict[int, bytes] = {}
        self._listing_cache: dict[tuple[int, int, int], dict[str, int]] = {}
        self._root = self._inode(root)
        if self._root.kind != "directory":
            raise self._damaged(self._inodes_at, "the root is no directory")

    def find(self, path: str, *, follow: bool = True) -> Inode | None:
        """Find what a path stands for; None if there is nothing, also behind a link that leads nowhere or in circles.

        Parameters
        ----------
        follow
            Whether a link as the last part of the path is followed.
        """
        trail = self._walk(path, follow)
        return trail[-1][1] if trail else None

    def real_path(self, path: str) -> str | None:
        """Give the path without links that a path stands for; None if there is nothing."""
        trail = self._walk(path, True)
        return "/" + "/".join(name for name, _ in trail[1:]) if trail else None

    def listdir(self, path: str) -> list[str]:
        """List the names in a directory, sorted by byte as they are stored; empty if it is no directory."""
        inode = self.find(path)
        return list(self._listing(inode)) if inode is not None and inode.kind == "directory" else []

    def read_bytes(self, path: str, limit: int) -> bytes:
        """Read a file, at most its first `limit` bytes.

        Raises
        ------
        NotFoundError
            If there is no such file.
        """
        inode = self.find(path)
        if inode is None or inode.kind != "file":
            raise NotFoundError(f"{self._file.name}: holds no file {path}")
        wanted = min(inode.size, limit)
        found = bytearray()
        blocks = self._blocks(inode)
        while len(found) < wanted:
            found += next(blocks)
        return bytes(found[:wanted])

    def _walk(self, path: str, follow: bool) -> list[tuple[str, Inode]]:
        """Give names and inodes from the root to what the path stands for; empty if there is nothing."""
        todo = deque(_parts(path))
        trail = [("", self._root)]
        links = 0
        while todo:
            name = todo.popleft()
            if name == "..":
                del trail[max(1, len(trail) - 1) :]
                continue
            inode = self._entry(trail[-1][1], name)
            if inode is None:
                return []
            if inode.kind == "link" and (todo or follow):
                links += 1
                if links > _MOST_LINKS:
                    return []
                if inode.target.startswith("/"):
                    del trail[1:]
                todo.extendleft(reversed(_parts(inode.target)))
            else:
                trail.append((name, inode))
        return trail

    def _entry(self, directory: Inode, name: str) -> Inode | None:
        reference = self._listing(directory).get(name) if directory.kind == "directory" else None
        return None if reference is None else self._inode(reference)

    def _inode(self, reference: int) -> Inode:
        cursor = _Cursor(self, self._inodes_at + (reference >> 16), reference & 0xFFFF)
        kind, mode, *_ = _INODE.unpack(cursor.take(_INODE.size))
        if not 1 <= kind <= 2 * len(_KINDS):
            raise self._damaged(cursor.at, f"inode type {kind}")
        name, long = _KINDS[(kind - 1) % len(_KINDS)], kind > len(_KINDS)
        if name == "directory":
            return _directory(mode, cursor, long)
        if name == "file":
            return _file(mode, cursor, long)
        return Inode(name, mode, target=self._target(cursor) if name == "link" else "")

    def _target(self, cursor: _Cursor) -> str:
        _, length = _LINK.unpack(cursor.take(_LINK.size))
        if length > _LARGEST_TARGET:
            raise self._damaged(cursor.at, f"a link of {length} bytes")
        return os.fsdecode(cursor.take(length))

    def _listing(self, directory: Inode) -> dict[str, int]:
        """Give names and inode references of a directory."""
        key = (directory.start, directory.offset, directory.size)  # an empty one stands where its successor does
        if key not in self._listing_cache:
            _make_room(self._listing_cache, 64)
            self._listing_cache[key] = dict(self._entries(directory))
        return self._listing_cache[key]

    def _entries(self, directory: Inode) -> Iterator[tuple[str, int]]:
        length = directory.size - 3  # the format counts 3 bytes that are not there, for `.` and `..`
        if length > _LARGEST_DIRECTORY:
            raise self._damaged(self._directories_at, f"a directory of {length} bytes")
        cursor = _Cursor(self, self._directories_at + directory.start, directory.offset)
        data = cursor.take(max(length, 0))
        at = 0
        try:
            while at < length:
                count, block, _ = _RUN.unpack_from(data, at)
                at += _RUN.size
                if count >= _LARGEST_RUN:
                    raise self._damaged(cursor.at, f"a run of {count} names")
                for _ in range(count + 1):
                    offset, _, _, size = _ENTRY.unpack_from(data, at)
                    name = data[at + _ENTRY.size : at + _ENTRY.size + size + 1]
                    at += _ENTRY.size + len(name)
                    yield self._name(name, cursor), block << 16 | offset
        except struct.error as err:
            raise self._damaged(cursor.at, "a directory ends within a name") from err

    def _name(self, name: bytes, cursor: _Cursor) -> str:
        if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
            raise self._damaged(cursor.at, f"a file named {name[:40]!r}")
        return os.fsdecode(name)

    def _blocks(self, inode: Inode) -> Iterator[bytes]:
        """Give a file's content, a block at a time."""
        sizes = _Cursor(self, *inode.sizes_at)
        at, left = inode.start, inode.size
        smallest = 1 if inode.fragment == _NO_FRAGMENT else self._block_size
        while left >= smallest:
            (word,) = _UINT32.unpack(sizes.take(_UINT32.size))
            length = min(left, self._block_size)
            yield self._block(at, word, length)
            at += word % _STORED_BLOCK
            left -= length
        if left:
            yield self._tail(inode, left)

    def _block(self, at: int, word: int, length: int) -> bytes:
        if word == 0:  # a hole
            return bytes(length)
        data = self._unpacked(at, word, length)
        if len(data) != length:
            raise self._damaged(at, f"a block of {len(data)} bytes, expected {length}")
        return data

    def _tail(self, inode: Inode, length: int) -> bytes:
        data = self._fragment(inode.fragment)[inode.offset : inode.offset + length]
        if len(data) != length:
            raise self._damaged(self._fragments_at, f"fragment {inode.fragment} ends within a file")
        return data

    def _fragment(self, number: int) -> bytes:
        if number >= self._fragments:
            raise self._damaged(self._fragments_at, f"fragment {number} of {self._fragments}")
        if number not in self._fragment_cache:
            table, index = divmod(number, _FRAGMENTS_A_BLOCK)
            (place,) = _UINT64.unpack(self._read(self._fragments_at + table * _UINT64.size, _UINT64.size))
            at, word, _ = _FRAGMENT.unpack(_Cursor(self, place, index * _FRAGMENT.size).take(_FRAGMENT.size))
            _make_room(self._fragment_cache, 16)
            self._fragment_cache[number] = self._unpacked(at, word, self._block_size)
        return self._fragment_cache[number]

    def _unpacked(self, at: int, word: int, most: int) -> bytes:
        """Read a data or fragment block; bit 24 of its size says that it is stored as it is."""
        size = word % _STORED_BLOCK
        if size > self._block_size:
            raise self._damaged(at, f"a block of {size} packed bytes")
        data = self._read(at, size)
        return data[:most] if word & _STORED_BLOCK else self._unpack_at(at, data, most)

    def metadata(self, at: int) -> tuple[bytes, int]:
        """Read the metadata block at a place; give what it unpacks to and the place of the next."""
        if at not in self._metadata_cache:
            (word,) = _UINT16.unpack(self._read(at, 2))
            size = word % _STORED_METADATA
            if not 0 < size <= _METADATA_SIZE:
                raise self._damaged(at, f"a metadata block of {size} bytes")
            data = self._read(at + 2, size)
            if not word & _STORED_METADATA:
                data = self._unpack_at(at, data, _METADATA_SIZE)
            if not data:
                raise self._damaged(at, "an empty metadata block")
            _make_room(self._metadata_cache, 1024)
            self._metadata_cache[at] = data, at + 2 + size
        return self._metadata_cache[at]

    def _unpack_at(self, at: int, data: bytes, most: int) -> bytes:
        try:
            return self._unpack(data, most)
        except self._unpack_fault as err:
            raise self._damaged(at, str(err)) from err

    def _read(self, at: int, length: int) -> bytes:
        data = b""
        if at + length <= self._size:
            data = os.pread(self._file.fileno(), length, self._offset + at)
        if len(data) != length:
            raise self._damaged(at, f"{length} bytes expected there, it has {self._size}")
        return data

    def _damaged(self, at: int, found: str) -> VerificationError:
        return VerificationError(
            f"{self._file.name}: the root file system is damaged near byte {self._offset + at}: {found}",
            "Fetch or copy the image again, and compare its sha256 with the one at its source.",
        )


class _Cursor:
    """A place in the chain of metadata blocks of a table, from which bytes are taken."""

    def __init__(self, squashfs: Squashfs, at: int, offset: int) -> None:
        self._squashfs = squashfs
        self.at = at
        self.offset = offset

    def take(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            data, following = self._squashfs.metadata(self.at)
            piece = data[self.offset : self.offset + length - len(found)]
            found += piece
            self.offset += len(piece)
            if len(found) < length:
                self.at, self.offset = following, max(0, self.offset - len(data))
        return bytes(found)


def _directory(mode: int, cursor: _Cursor, long: bool) -> Inode:
    if long:
        _, size, start, _, _, offset, _ = _LONG_DIRECTORY.unpack(cursor.take(_LONG_DIRECTORY.size))
    else:
        start, _, size, offset, _ = _DIRECTORY.unpack(cursor.take(_DIRECTORY.size))
    return Inode("directory", mode, size, start, offset)


def _file(mode: int, cursor: _Cursor, long: bool) -> Inode:
    if long:
        start, size, _, _, fragment, offset, _ = _LONG_FILE.unpack(cursor.take(_LONG_FILE.size))
    else:
        start, fragment, offset, size = _FILE.unpack(cursor.take(_FILE.size))
    return Inode("file", mode, size, start, offset, fragment, (cursor.at, cursor.offset))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _make_room(cache: dict[_Key, _Value], most: int) -> None:
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
