"""Read the complete tree of a squashfs 4.0 as nodes, with the place of each file's compressed blocks.

Unlike reader.py, which reads what is asked for, this reads all inodes with owners, times and attributes, but no
contents. All input is untrusted: memory is limited, and a directory that is reached twice is an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.images.squashfs.attributes import Attributes, Owners
from hpcmod.images.squashfs.blocks import Blocks, Cursor
from hpcmod.images.squashfs.format import NO_FRAGMENT, STORED_BLOCK, UINT32
from hpcmod.images.squashfs.listing import read_listing
from hpcmod.images.squashfs.tree import KINDS, FileData, Node

MOST_MEMORY = 750_000_000
"""Bytes of memory for the nodes of one squashfs: enough for a million files with paths of 80 bytes."""

_NODE_MEMORY, _NAME_MEMORY, _BLOCK_MEMORY = 450, 150, 40  # rounded up
_LONGEST_TARGET = 4095

_HEAD = struct.Struct("<HHHHII")
_LINK = struct.Struct("<II")
_DEVICE = struct.Struct("<II")

_Listing = tuple[int, int, int]
"""Position of a directory's listing: offset of its metadata block, offset in that, size."""


@dataclass(frozen=True)
class SourceTree:
    """The tree of an existing squashfs, to be changed and written into a new one."""

    root: Node
    blocks: Blocks
    """The blocks to which the tree's data refer."""
    data: frozenset[FileData]
    """The data of all files: offsets and fragment numbers are those of this squashfs."""


def read_tree(file: BinaryIO, offset: int, size: int, *, most_memory: int = MOST_MEMORY) -> SourceTree:
    """Read the tree of a squashfs at an offset in an open file, which must stay open while blocks are copied.

    Parameters
    ----------
    most_memory
        Most bytes of memory for the nodes (estimated).

    Raises
    ------
    BadInputError
        If there is no squashfs 4.0, or it has too many files.
    VerificationError
        If it is damaged.
    LackingError
        If this Python cannot decompress it.
    """
    return _Reading(Blocks(file, offset, size), most_memory).run()


class _Reading:
    """The reading of one tree."""

    def __init__(self, blocks: Blocks, most_memory: int) -> None:
        self._blocks = blocks
        self._block_size = blocks.superblock.block_size
        self._memory = most_memory
        self._most_memory = most_memory
        self._owners, self._attributes = Owners(blocks), Attributes(blocks)
        self._seen: dict[int, Node] = {}
        self._listings: dict[Node, _Listing] = {}
        self._data: list[FileData] = []

    def run(self) -> SourceTree:
        root = self._inode(self._blocks.superblock.root)
        if root.kind != "dir":
            raise self._damaged("the root is not a directory")
        todo = [root]
        while todo:
            directory = todo.pop()
            for name, reference in read_listing(self._blocks, *self._listings.pop(directory)):
                known = self._seen.get(reference)
                if name in directory.children or (known is not None and known.kind == "dir"):
                    raise self._damaged(f"{name[:40]!r} is in two places")
                self._take(len(name) + _NAME_MEMORY)
                node = directory.children[name] = known or self._inode(reference)
                if known is None and node.kind == "dir":
                    todo.append(node)
        return SourceTree(root, self._blocks, frozenset(self._data))

    def _inode(self, reference: int) -> Node:
        """Read the inode at a reference."""
        self._take(_NODE_MEMORY)
        at = self._blocks.superblock.inodes_at + (reference >> 16)
        cursor = Cursor(self._blocks, at, reference & 0xFFFF)
        number, mode, uid, gid, mtime, _ = _HEAD.unpack(cursor.take(_HEAD.size))
        if not 1 <= number <= 2 * len(KINDS):
            raise self._damaged(f"inode type {number}")
        kind, long = KINDS[(number - 1) % len(KINDS)], number > len(KINDS)
        node = Node(kind, mode & 0o7777, uid=self._owners.find(uid), gid=self._owners.find(gid), mtime=mtime)
        xattrs = self._fill(node, cursor, long)
        if long:
            node.xattrs = self._attributes.find(xattrs)
            self._take(sum(len(name) + len(value) for name, value in node.xattrs))
        self._seen[reference] = node
        return node

    def _fill(self, node: Node, cursor: Cursor, long: bool) -> int:
        """Read what follows the head of an inode; return the number of its attributes, which only a long one has."""
        if node.kind == "dir":
            start, offset, size, xattrs = cursor.take_directory(long)
            self._listings[node] = (start, offset, size)
            return xattrs
        if node.kind == "file":
            return self._fill_file(node, cursor, long)
        if node.kind == "symlink":
            _, length = _LINK.unpack(cursor.take(_LINK.size))
            if not 0 < length <= _LONGEST_TARGET:
                raise self._damaged(f"a link of {length} bytes")
            self._take(length)
            node.target = cursor.take(length)
        elif node.kind in ("block", "char"):
            _, device = _DEVICE.unpack(cursor.take(_DEVICE.size))
            node.device = (device >> 8 & 0xFFF, device & 0xFF | device >> 12 & 0xFFF00)
        else:
            cursor.take(UINT32.size)
        return int(UINT32.unpack(cursor.take(UINT32.size))[0]) if long else 0

    def _fill_file(self, node: Node, cursor: Cursor, long: bool) -> int:
        start, size, fragment, offset, xattrs = cursor.take_file(long)
        tail = size % self._block_size if fragment != NO_FRAGMENT else 0
        count = -(-(size - tail) // self._block_size)
        self._take(count * _BLOCK_MEMORY)
        data = FileData(size, sizes=list(self._sizes(cursor, count)), fragment=fragment, offset=offset)
        if fragment != NO_FRAGMENT and not tail:  # never written so, and no program would read the fragment
            data.fragment, data.offset = NO_FRAGMENT, 0
        if any(data.sizes):
            data.start = start
        lengths = (min(self._block_size, size - number * self._block_size) for number in range(count))
        data.holes = sum(length for word, length in zip(data.sizes, lengths) if not word)
        node.data = data
        self._data.append(data)
        return xattrs

    def _sizes(self, cursor: Cursor, count: int) -> Iterator[int]:
        for (word,) in UINT32.iter_unpack(cursor.take(count * UINT32.size)):
            if word % STORED_BLOCK > self._block_size:
                raise self._damaged(f"a block of {word % STORED_BLOCK} bytes")
            yield word

    def _take(self, count: int) -> None:
        self._memory -= count
        if self._memory < 0:
            raise BadInputError(
                f"{self._blocks.name}: its files and directories need more than {self._most_memory // 10**6} MB of "
                "memory",
                "Such an image may be malicious: check where it comes from.",
            )

    def _damaged(self, found: str) -> VerificationError:
        return self._blocks.damaged(self._blocks.superblock.inodes_at, found)
