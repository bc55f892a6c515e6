"""The content of a file system image: a tree of nodes, and the location of each file's written content."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmod.images.squashfs.format import NO_FRAGMENT

_NO_BLOCKS: list[int] = []  # shared by all files without blocks

KINDS = ("dir", "file", "symlink", "block", "char", "fifo", "socket")


class FileData:
    """The location of a file's content in the image, set by the writer; several nodes may share one.

    A file's blocks are consecutive. A file shorter than a block is in a fragment block with other files instead.
    """

    __slots__ = ("fragment", "holes", "offset", "size", "sizes", "start")

    def __init__(
        self, size: int, *, sizes: list[int] | None = None, fragment: int = NO_FRAGMENT, offset: int = 0
    ) -> None:
        self.size = size
        """Size of the file in bytes."""
        self.start = -1
        """Offset of the first block that is not a hole; -1 until one is written."""
        self.sizes = _NO_BLOCKS if sizes is None else sizes
        """Size field of each block: 0 for a hole; else the compressed size, with bit 24 set if not compressed."""
        self.fragment = fragment
        """Number of the fragment block with the content."""
        self.offset = offset
        """Offset in the uncompressed fragment block."""
        self.holes = 0
        """Bytes of blocks that are holes."""


class Node:
    """A file, a directory or anything else with a name; a node with two names is a hard link.

    It belongs to root until its `uid` and `gid` are set, as those of a squashfs that is read.

    `kind`: One of KINDS.
    `mode`: Permission bits, 07777.
    `mtime`: Unix seconds.
    `xattrs`: Extended attributes: full name and value.
    `target`: Target of a symlink.
    `data`: Content of a file.
    """

    __slots__ = ("children", "data", "device", "gid", "kind", "mode", "mtime", "target", "uid", "xattrs")

    children: dict[bytes, Node]
    """By name; only a directory has this attribute."""
    device: tuple[int, int]
    """Major and minor number of a device; (0, 0) until they are set."""

    def __init__(
        self,
        kind: str,
        mode: int,
        *,
        mtime: int = 0,
        xattrs: tuple[tuple[bytes, bytes], ...] = (),
        target: bytes = b"",
        data: FileData | None = None,
    ) -> None:
        self.kind = kind
        self.mode = mode
        self.uid = self.gid = 0
        self.mtime = mtime
        self.xattrs = xattrs
        self.target = target
        self.device = (0, 0)
        self.data = data
        if kind == "dir":
            self.children = {}


def files_in(root: Node) -> Iterator[Node]:
    """Yield the files in a tree, one with two names twice."""
    todo = [root]
    while todo:
        for node in todo.pop().children.values():
            if node.kind == "dir":
                todo.append(node)
            elif node.kind == "file":
                yield node
