"""What a file system image will hold: a tree of nodes, and where the content of each file already lies in the image."""

from __future__ import annotations

from hpcmod.image.squashfs.format import NO_FRAGMENT

_NO_BLOCKS: list[int] = []  # shared by all files that have none

KINDS = ("dir", "file", "symlink", "block", "char", "fifo", "socket")


class FileData:
    """A file's content in the image, as its writer fills it in; several nodes may share one.

    A file's blocks follow one another. What is shorter than a block lies with other files in a fragment block instead.
    """

    __slots__ = ("fragment", "holes", "offset", "size", "sizes", "start")

    def __init__(
        self, size: int, *, sizes: list[int] | None = None, fragment: int = NO_FRAGMENT, offset: int = 0
    ) -> None:
        self.size = size
        """Bytes of the file."""
        self.start = -1
        """Place of the first block that is not a hole; -1 as long as none is written."""
        self.sizes = _NO_BLOCKS if sizes is None else sizes
        """A word for each block: 0 a hole; else the packed size, with bit 24 set where the block is stored as it is."""
        self.fragment = fragment
        """Number of the fragment block that holds the content."""
        self.offset = offset
        """In the unpacked fragment block."""
        self.holes = 0
        """Bytes of the blocks that are holes."""


class Node:
    """A file, a directory or anything else that has a name; one node under two names is a hard link.

    Parameters
    ----------
    kind
        One of KINDS.
    mode
        Permission bits, 07777.
    mtime
        Unix seconds.
    xattrs
        Extended attributes: full name and value.
    target
        Of a symlink.
    device
        Major and minor number of a device.
    data
        Content of a file.
    """

    __slots__ = ("children", "data", "device", "gid", "kind", "mode", "mtime", "target", "uid", "xattrs")

    children: dict[bytes, Node]
    """By name; only a directory has this attribute."""

    def __init__(
        self,
        kind: str,
        mode: int,
        *,
        uid: int = 0,
        gid: int = 0,
        mtime: int = 0,
        xattrs: tuple[tuple[bytes, bytes], ...] = (),
        target: bytes = b"",
        device: tuple[int, int] = (0, 0),
        data: FileData | None = None,
    ) -> None:
        self.kind = kind
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.mtime = mtime
        self.xattrs = xattrs
        self.target = target
        self.device = device
        self.data = data
        if kind == "dir":
            self.children = {}
