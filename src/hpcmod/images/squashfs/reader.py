"""Read a squashfs 4.0 at an offset in a file lazily: only the requested directories and blocks.

We have our own reader because those on PyPI either scan the whole tree first (200,000 files in a LUMI image) and fail
on extended attributes at an offset, or have a licence that is incompatible with EasyBuild's.

Extended attributes, owners and times are not read.
"""

from __future__ import annotations

import os
from collections import deque
from itertools import accumulate
from typing import BinaryIO

from hpcmod.core.errors import NotFoundError
from hpcmod.images.squashfs.blocks import Blocks, Cursor, make_room
from hpcmod.images.squashfs.format import NO_FRAGMENT, STORED_BLOCK, UINT32
from hpcmod.images.squashfs.inode import Inode
from hpcmod.images.squashfs.listing import read_listing

_TEXT_LIMIT = 1 << 20  # bytes of a text file, unless a reader says another
_MOST_LINKS = 40  # the kernel's limit
_MOST_BLOCKS = 1 << 22  # of a file: 512 GiB in blocks of 128 KiB; limits the time spent on a damaged size
_KEPT = 8  # blocks of an open file


class Squashfs:
    """A squashfs in an open file.

    Paths are absolute paths inside it, and links are followed inside it. Names other than UTF-8 have surrogate escapes.

    `file`: A file open for reading; the caller closes it.
    `offset`: Offset of the squashfs in bytes.
    `size`: Its size in bytes.

    Raises BadInputError if there is no squashfs 4.0; VerificationError from here and from every method if the squashfs
    is damaged; LackingError if this Python cannot decompress it.
    """

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._blocks = Blocks(file, offset, size)
        self._listing_cache: dict[tuple[int, int, int], dict[str, int]] = {}
        self._root = Inode(self._blocks, self._blocks.superblock.root)
        if self._root.kind != "dir":
            raise self._blocks.damaged(self._blocks.superblock.inodes_at, "the root is not a directory")
        self.compression = self._blocks.compression

    def find(self, path: str, *, follow: bool = True) -> Inode | None:
        """Return the inode of a path, None if missing; `follow` says whether a link at its end is followed."""
        trail = self._walk(path, follow)
        return trail[-1][1] if trail else None

    def real_path(self, path: str) -> str | None:
        """Return a path with all links resolved; None if missing."""
        trail = self._walk(path, True)
        return "/" + "/".join(name for name, _ in trail[1:]) if trail else None

    def listdir(self, path: str) -> list[str]:
        """List the names in a directory, sorted by byte as stored; empty if it is not a directory."""
        inode = self.find(path)
        return list(self._listing(inode)) if inode is not None and inode.kind == "dir" else []

    def read_bytes(self, path: str, limit: int) -> bytes:
        """Read at most the first `limit` bytes of a file.

        Raises NotFoundError if there is no such file.
        """
        opened = self.open_file(path)
        if opened is None:
            raise NotFoundError(f"{self._blocks.name}: no file {path} in the image")
        return opened.read(0, limit)

    def text_of(self, path: str, limit: int = _TEXT_LIMIT) -> str:
        """Read at most the first `limit` bytes of a text file; empty if missing."""
        opened = self.open_file(path)
        return opened.read(0, limit).decode(errors="replace") if opened else ""

    def open_file(self, path: str) -> OpenedFile | None:
        """Open a file for random access; None if missing."""
        inode = self.find(path)
        if inode is None or inode.kind != "file":
            return None
        sizes = Cursor(self._blocks, *inode.sizes_at)
        in_fragment = inode.size % self._blocks.superblock.block_size if inode.fragment != NO_FRAGMENT else 0
        tail = (inode.fragment, inode.offset, in_fragment)
        return OpenedFile(self._blocks, inode.start, inode.size, sizes, tail)

    def _walk(self, path: str, follow: bool) -> list[tuple[str, Inode]]:
        """Return names and inodes from the root to a path; empty if missing."""
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
            if inode.kind == "symlink" and (todo or follow):
                links += 1
                if links > _MOST_LINKS:
                    return []
                if inode.target.startswith(b"/"):
                    del trail[1:]
                todo.extendleft(reversed(_parts(os.fsdecode(inode.target))))
            else:
                trail.append((name, inode))
        return trail

    def _entry(self, directory: Inode, name: str) -> Inode | None:
        reference = self._listing(directory).get(name) if directory.kind == "dir" else None
        return None if reference is None else Inode(self._blocks, reference)

    def _listing(self, directory: Inode) -> dict[str, int]:
        """Return names and inode references of a directory."""
        key = (directory.start, directory.offset, directory.size)  # an empty listing has the position of the next one
        if key not in self._listing_cache:
            make_room(self._listing_cache, 64)
            listed = read_listing(self._blocks, directory)
            self._listing_cache[key] = {os.fsdecode(name): reference for name, reference in listed}
        return self._listing_cache[key]


class OpenedFile:
    """A file in a squashfs with random access: only the requested blocks are decompressed. Errors as of `Squashfs`.

    `start` is the offset of its first block, `sizes` the cursor at the list of the compressed sizes of its blocks, and
    `tail` the number of the fragment block with its end, the offset in it, and bytes: 0 if there is none.
    """

    def __init__(self, blocks: Blocks, start: int, size: int, sizes: Cursor, tail: tuple[int, int, int]) -> None:
        self.size = size
        self._blocks, self._tail = blocks, tail
        self._block_size = blocks.superblock.block_size
        self._in_blocks = size - tail[2]
        self._places = list(self._find_places(start, sizes))
        self._kept: dict[int, bytes] = {}

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes at an offset, fewer only at the end."""
        end = min(offset + length, self.size)
        found = bytearray()
        while offset < end:
            block, skip = divmod(offset, self._block_size)
            piece = self._block(block)[skip : skip + end - offset]
            found += piece
            offset += len(piece)
        return bytes(found)

    def _find_places(self, start: int, sizes: Cursor) -> zip[tuple[int, int]]:
        """Return offset and size field of every block."""
        count = -(-self._in_blocks // self._block_size)
        if count > _MOST_BLOCKS:
            raise self._blocks.damaged(start, f"a file of {self.size} bytes")
        words = [word for (word,) in UINT32.iter_unpack(sizes.take(count * UINT32.size))]
        return zip(accumulate((word % STORED_BLOCK for word in words), initial=start), words)

    def _block(self, number: int) -> bytes:
        if number not in self._kept:
            make_room(self._kept, _KEPT)
            self._kept[number] = self._unpack(number)
        return self._kept[number]

    def _unpack(self, number: int) -> bytes:
        if number == len(self._places):
            return self._blocks.tail(*self._tail)
        at, word = self._places[number]
        return self._blocks.block(at, word, min(self._block_size, self._in_blocks - number * self._block_size))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
