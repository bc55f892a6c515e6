"""Read a squashfs 4.0 at an offset in a file lazily: only the requested directories and blocks.

We have our own reader because those on PyPI either scan the whole tree first (200,000 files in a LUMI image) and fail
on extended attributes at an offset, or have a licence that is incompatible with EasyBuild's.

Extended attributes, owners and times are not read.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from dataclasses import dataclass
from typing import BinaryIO

from hpcmod.core.errors import NotFoundError
from hpcmod.images.squashfs.blocks import Blocks, Cursor, make_room
from hpcmod.images.squashfs.format import NO_FRAGMENT
from hpcmod.images.squashfs.listing import read_listing
from hpcmod.images.squashfs.opened import OpenedFile

_LARGEST_TARGET = 65536
_TEXT_LIMIT = 1 << 20  # bytes of a text file, unless a reader says another
_MOST_LINKS = 40  # the kernel's limit

_INODE = struct.Struct("<HHHHII")
_LINK = struct.Struct("<II")

_KINDS = ("directory", "file", "link", "block device", "character device", "fifo", "socket")


@dataclass(frozen=True)
class Inode:
    """An inode: a file, directory, link, ..."""

    kind: str
    """`directory`, `file`, `link`, `block device`, `character device`, `fifo` or `socket`."""
    mode: int
    """Permission bits."""
    size: int = 0
    """Size of a file or of a directory's listing, in bytes."""
    start: int = 0
    """Offset of a file's first block, or of a directory's metadata block."""
    offset: int = 0
    """Offset of a directory's listing in its metadata block, or of a file's tail in its fragment."""
    fragment: int = NO_FRAGMENT
    sizes_at: tuple[int, int] = (0, 0)
    """Metadata block, and offset in it, of the list of a file's block sizes."""
    target: str = ""
    """Target of a link."""

    @property
    def executable(self) -> bool:
        """Whether this is an executable file."""
        return self.kind == "file" and bool(self.mode & 0o111)


class Squashfs:
    """A squashfs in an open file.

    Paths are absolute paths inside it, and links are followed inside it. Names other than UTF-8 have surrogate escapes.

    Parameters
    ----------
    file
        A file open for reading; the caller closes it.
    offset
        Offset of the squashfs in bytes.
    size
        Its size in bytes.

    Raises
    ------
    BadInputError
        If there is no squashfs 4.0.
    VerificationError
        From here and from every method: if the squashfs is damaged.
    LackingError
        If this Python cannot decompress it.
    """

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._blocks = Blocks(file, offset, size)
        self._inodes_at = self._blocks.superblock.inodes_at
        self._listing_cache: dict[tuple[int, int, int], dict[str, int]] = {}
        self._root = self._inode(self._blocks.superblock.root)
        if self._root.kind != "directory":
            raise self._blocks.damaged(self._inodes_at, "the root is not a directory")

    def find(self, path: str, *, follow: bool = True) -> Inode | None:
        """Return the inode of a path; None if missing, or for a broken link or a loop of links.

        Parameters
        ----------
        follow
            Whether to follow a link that is the last component of the path.
        """
        trail = self._walk(path, follow)
        return trail[-1][1] if trail else None

    def real_path(self, path: str) -> str | None:
        """Return a path with all links resolved; None if missing."""
        trail = self._walk(path, True)
        return "/" + "/".join(name for name, _ in trail[1:]) if trail else None

    def listdir(self, path: str) -> list[str]:
        """List the names in a directory, sorted by byte as stored; empty if it is not a directory."""
        inode = self.find(path)
        return list(self._listing(inode)) if inode is not None and inode.kind == "directory" else []

    def read_bytes(self, path: str, limit: int) -> bytes:
        """Read at most the first `limit` bytes of a file.

        Raises
        ------
        NotFoundError
            If there is no such file.
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
        cursor = Cursor(self._blocks, self._inodes_at + (reference >> 16), reference & 0xFFFF)
        kind, mode, *_ = _INODE.unpack(cursor.take(_INODE.size))
        if not 1 <= kind <= 2 * len(_KINDS):
            raise self._blocks.damaged(cursor.at, f"inode type {kind}")
        name, long = _KINDS[(kind - 1) % len(_KINDS)], kind > len(_KINDS)
        if name == "directory":
            start, offset, size, _ = cursor.take_directory(long)
            return Inode(name, mode, size, start, offset)
        if name == "file":
            start, size, fragment, offset, _ = cursor.take_file(long)
            return Inode(name, mode, size, start, offset, fragment, (cursor.at, cursor.offset))
        return Inode(name, mode, target=self._target(cursor) if name == "link" else "")

    def _target(self, cursor: Cursor) -> str:
        _, length = _LINK.unpack(cursor.take(_LINK.size))
        if length > _LARGEST_TARGET:
            raise self._blocks.damaged(cursor.at, f"a link of {length} bytes")
        return os.fsdecode(cursor.take(length))

    def _listing(self, directory: Inode) -> dict[str, int]:
        """Return names and inode references of a directory."""
        key = (directory.start, directory.offset, directory.size)  # an empty listing has the position of the next one
        if key not in self._listing_cache:
            make_room(self._listing_cache, 64)
            listed = read_listing(self._blocks, directory.start, directory.offset, directory.size)
            self._listing_cache[key] = {os.fsdecode(name): reference for name, reference in listed}
        return self._listing_cache[key]


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
