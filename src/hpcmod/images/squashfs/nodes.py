"""Read the complete tree of a squashfs 4.0 as nodes, with the place of each file's compressed blocks.

Unlike reader.py, which reads what is asked for, this reads all inodes with owners, times and attributes, but no
contents. All input is untrusted: memory is limited, and a directory that is reached twice is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.images.squashfs.attributes import Attributes
from hpcmod.images.squashfs.blocks import Blocks, Cursor
from hpcmod.images.squashfs.format import NO_FRAGMENT, STORED_BLOCK, UINT32
from hpcmod.images.squashfs.inode import Inode
from hpcmod.images.squashfs.listing import read_listing
from hpcmod.images.squashfs.tree import FileData, Node

MOST_MEMORY = 750_000_000
"""Bytes of memory for the nodes of one squashfs: enough for a million files with paths of 80 bytes."""

_NODE_MEMORY, _NAME_MEMORY, _BLOCK_MEMORY = 450, 150, 40  # rounded up


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

    `most_memory` limits the estimated bytes of memory for the nodes.

    Raises BadInputError if there is no squashfs 4.0, or it has too many files; VerificationError if it is damaged;
    LackingError if this Python cannot decompress it.
    """
    return _Reading(Blocks(file, offset, size), most_memory).run()


class _Reading:
    """The reading of one tree."""

    def __init__(self, blocks: Blocks, most_memory: int) -> None:
        self._blocks = blocks
        self._block_size = blocks.superblock.block_size
        self._memory = most_memory
        self._most_memory = most_memory
        self._attributes = Attributes(blocks)
        ids, ids_at = blocks.superblock.ids, blocks.superblock.ids_at
        self._owners: list[int] = [
            UINT32.unpack(blocks.record(ids_at, number, UINT32.size))[0] for number in range(ids)
        ]
        self._seen: dict[int, Node] = {}
        self._directories: dict[Node, Inode] = {}
        self._data: list[FileData] = []

    def run(self) -> SourceTree:
        root = self._node(self._blocks.superblock.root)
        if root.kind != "dir":
            raise self._damaged("the root is not a directory")
        todo = [root]
        while todo:
            directory = todo.pop()
            for name, reference in read_listing(self._blocks, self._directories.pop(directory)):
                known = self._seen.get(reference)
                if name in directory.children or (known is not None and known.kind == "dir"):
                    raise self._damaged(f"{name[:40]!r} is in two places")
                self._take(len(name) + _NAME_MEMORY)
                node = directory.children[name] = known or self._node(reference)
                if known is None and node.kind == "dir":
                    todo.append(node)
        return SourceTree(root, self._blocks, frozenset(self._data))

    def _node(self, reference: int) -> Node:
        """Read the inode at a reference as a node."""
        inode = Inode(self._blocks, reference)
        xattrs = self._attributes.find(inode.xattrs)
        self._take(_NODE_MEMORY + len(inode.target) + sum(len(name) + len(value) for name, value in xattrs))
        node = Node(
            inode.kind,
            inode.mode,
            mtime=inode.mtime,
            xattrs=xattrs,
            target=inode.target,
            data=self._file_data(inode) if inode.kind == "file" else None,
        )
        node.uid, node.gid, node.device = self._owner(inode.uid), self._owner(inode.gid), inode.device
        if inode.kind == "dir":
            self._directories[node] = inode
        self._seen[reference] = node
        return node

    def _owner(self, number: int) -> int:
        if number >= len(self._owners):
            raise self._blocks.damaged(self._blocks.superblock.ids_at, f"owner {number} of only {len(self._owners)}")
        return self._owners[number]

    def _file_data(self, inode: Inode) -> FileData:
        size, fragment, offset = inode.size, inode.fragment, inode.offset
        tail = size % self._block_size if fragment != NO_FRAGMENT else 0
        count = -(-(size - tail) // self._block_size)
        self._take(count * _BLOCK_MEMORY)
        sizes = list(self._sizes(Cursor(self._blocks, *inode.sizes_at), count))
        if fragment != NO_FRAGMENT and not tail:  # never written so, and no program would read the fragment
            fragment, offset = NO_FRAGMENT, 0
        data = FileData(size, sizes=sizes, fragment=fragment, offset=offset)
        if any(sizes):
            data.start = inode.start
        lengths = (min(self._block_size, size - number * self._block_size) for number in range(count))
        data.holes = sum(length for word, length in zip(sizes, lengths) if not word)
        self._data.append(data)
        return data

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
