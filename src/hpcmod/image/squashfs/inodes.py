"""Write the inodes and directory listings of a squashfs 4.0 from a tree of nodes.

Inodes begin with uint16 type, uint16 mode, uint16 user, uint16 group, uint32 mtime, uint32 number; each kind has a
basic form, and an extended form (type + 7) for values that do not fit.

The children of a directory get consecutive numbers, and their inodes are together in the order of the listing; those of
subdirectories are written after their contents. A listing longer than 8 KiB gets an index in its inode.
"""

from __future__ import annotations

import struct

from hpcmod.errors import BadInputError
from hpcmod.image.squashfs.codecs import Codec
from hpcmod.image.squashfs.format import (
    ENTRY,
    LARGEST_RUN,
    METADATA_SIZE,
    RUN,
    UINT32,
)
from hpcmod.image.squashfs.tables import NO_XATTRS, Ids, Metadata, Xattrs
from hpcmod.image.squashfs.tree import KINDS, FileData, Node

_TYPES = {kind: number for number, kind in enumerate(("dir", "file", "symlink", "block", "char", "fifo", "socket"), 1)}
_EXTENDED = 7
_LONGEST_NAME = 255
_LONGEST_TARGET = 4095  # as on Linux, which counts the final NUL
_LARGEST_TIME = 0xFFFFFFFF
_LARGEST_MAJOR, _LARGEST_MINOR = 0xFFF, 0xFFFFF
_LARGEST_BASIC = 0xFFFFFFFF  # size and offset in the basic form of a file
_LARGEST_BASIC_LISTING = 0xFFFF
_LISTING_EXTRA = 3  # the format counts 3 extra bytes for `.` and `..`
_MOST_INDEXED = 0xFFFF

_HEAD = struct.Struct("<HHHHII")
_DIR = struct.Struct("<HHHHIIIIHHI")
_LONG_DIR = struct.Struct("<HHHHIIIIIIHHI")
_INDEX = struct.Struct("<III")
_FILE = struct.Struct("<HHHHIIIIII")
_LONG_FILE = struct.Struct("<HHHHIIQQQIIII")
_LINK = struct.Struct("<HHHHIIII")
_DEVICE = struct.Struct("<HHHHIIII")
_OTHER = struct.Struct("<HHHHIII")

_EMPTY = FileData(0)
_Head = tuple[int, int, int, int, int]
"""Mode, user number, group number, mtime, inode number: the fields of every inode after its type."""


class Inodes:
    """The inode table and the directory table of one tree, kept compressed in memory until they are written.

    Parameters
    ----------
    root
        The root directory. The data of all nodes must have been written.

    Raises
    ------
    BadInputError
        If squashfs does not support something in the tree: a name, a target, an owner, a device number, or a
        directory with two names.
    """

    def __init__(self, root: Node, codec: Codec) -> None:
        if root.kind != "dir":
            raise BadInputError(f"the root of an image is a {root.kind}, expected a directory")
        self.inodes = Metadata(codec)
        self.listings = Metadata(codec)
        self.ids = Ids()
        self.xattrs = Xattrs(codec)
        self._listing_of: dict[Node, _Listing] = {}
        self._links: dict[Node, int] = {}
        order = self._number(root)
        self.references = [-1] * len(self._numbers)
        """Reference of each inode, by number from 1."""
        for directory, names in reversed(order):
            self._add_children(directory, names)
        self.root = self._add(root, 1, len(self._numbers) + 1)  # as in mksquashfs: a nonexistent parent
        """Reference to the root's inode."""

    def _number(self, root: Node) -> list[tuple[Node, list[bytes]]]:
        """Traverse the tree, number its nodes and count their names.

        Returns
        -------
        list
            The directories, each with its sorted names; parents first.
        """
        self._numbers = numbers = {root: 1}
        order, todo = [], [root]
        while todo:
            directory = todo.pop()
            names = sorted(directory.children)
            order.append((directory, names))
            below = []
            for name in names:
                child = directory.children[name]
                if child in numbers:
                    self._count_link(child, name)
                    continue
                numbers[child] = len(numbers) + 1
                if child.kind == "dir":
                    below.append(child)
            todo.extend(reversed(below))
        return order

    def _count_link(self, node: Node, name: bytes) -> None:
        if node.kind == "dir":
            raise BadInputError(f"the directory {name!r} has a second name")
        self._links[node] = self._links.get(node, 1) + 1

    def _add_children(self, directory: Node, names: list[bytes]) -> None:
        """Write the inodes of a directory's children and its listing; its subdirectories are already written."""
        listing = _Listing(self.listings)
        parent, children, numbers, references = (
            self._numbers[directory],
            directory.children,
            self._numbers,
            self.references,
        )
        for name in names:
            child = children[name]
            number = numbers[child]
            reference = references[number - 1]
            if reference < 0:  # else a hard link whose inode is already written
                reference = self._add(child, number, parent)
            listing.add(name, number, reference, _TYPES[child.kind])
        listing.close()
        self._listing_of[directory] = listing

    def _add(self, node: Node, number: int, parent: int) -> int:
        """Write an inode; return its reference."""
        reference = self.references[number - 1] = self.inodes.reference()
        mtime = min(max(node.mtime, 0), _LARGEST_TIME)
        head = (node.mode & 0o7777, self.ids.number(node.uid), self.ids.number(node.gid), mtime, number)
        xattrs = self.xattrs.number(node.xattrs) if node.xattrs else NO_XATTRS
        if node.kind == "file":
            packed = _file(head, node.data or _EMPTY, self._links.get(node, 1), xattrs)
        elif node.kind == "dir":
            packed = _dir(head, self._listing_of.pop(node), parent, xattrs)
        else:
            packed = _other(head, node, self._links.get(node, 1), xattrs)
        self.inodes.append(packed)
        return reference


class _Listing:
    """A directory's listing while it is written, and the values for its inode."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.reference = metadata.reference()
        self.size = 0
        self.index: list[bytes] = []
        self.directories = 0
        self._run = bytearray()
        self._count = self._block = self._base = 0
        self._marked = 0  # offset in the listing of the last index entry

    def add(self, name: bytes, number: int, reference: int, kind: int) -> None:
        """Add an entry; names must be added in sorted order."""
        length, block, step = len(name), reference >> 16, number - self._base
        if not 0 < length <= _LONGEST_NAME or b"/" in name or b"\0" in name or name in (b".", b".."):
            raise BadInputError(f"a file named {name[:300]!r}: expected 1 to {_LONGEST_NAME} bytes without / and NUL")
        if (
            block != self._block
            or not 0 < self._count < LARGEST_RUN
            or not -0x8000 <= step <= 0x7FFF
            or self.size + RUN.size + len(self._run) + ENTRY.size + length - self._marked > METADATA_SIZE
        ):
            self._begin(name, number, block)
            step = 0
        self._run += ENTRY.pack(reference & 0xFFFF, step, kind, length - 1)
        self._run += name
        self._count += 1
        self.directories += kind == 1

    def close(self) -> None:
        """Write the last run."""
        if self._count:
            self._metadata.append(RUN.pack(self._count - 1, self._block, self._base))
            self._metadata.append(self._run)
            self.size += RUN.size + len(self._run)

    def _begin(self, name: bytes, number: int, block: int) -> None:
        """Start a run with this name, and add it to the index every 8 KiB."""
        self.close()
        self._run.clear()
        self._count, self._block, self._base = 0, block, number
        far = self.size + RUN.size + ENTRY.size + len(name) - self._marked > METADATA_SIZE
        if far and len(self.index) < _MOST_INDEXED:
            self.index.append(_INDEX.pack(self.size, self._metadata.reference() >> 16, len(name) - 1) + name)
            self._marked = self.size


def _file(head: _Head, data: FileData, links: int, xattrs: int) -> bytes:
    start = max(data.start, 0)
    sizes = struct.pack(f"<{len(data.sizes)}I", *data.sizes) if data.sizes else b""
    if links == 1 and xattrs == NO_XATTRS and not data.holes and max(start, data.size) <= _LARGEST_BASIC:
        return _FILE.pack(2, *head, start, data.fragment, data.offset, data.size) + sizes
    spared = min(
        data.holes, max(data.size - 1, 0)
    )  # for a file that is one hole, Linux would compute a negative block count
    packed = _LONG_FILE.pack(9, *head, start, data.size, spared, links, data.fragment, data.offset, xattrs)
    return packed + sizes


def _dir(head: _Head, listing: _Listing, parent: int, xattrs: int) -> bytes:
    block, offset = listing.reference >> 16, listing.reference & 0xFFFF
    links, size = listing.directories + 2, listing.size + _LISTING_EXTRA
    if xattrs == NO_XATTRS and not listing.index and size <= _LARGEST_BASIC_LISTING:
        return _DIR.pack(1, *head, block, links, size, offset, parent)
    count = len(listing.index)
    packed = _LONG_DIR.pack(8, *head, links, size, block, parent, count, offset, xattrs)
    return packed + b"".join(listing.index)


def _other(head: _Head, node: Node, links: int, xattrs: int) -> bytes:
    """Pack the inode of a symlink, device, fifo or socket."""
    if node.kind not in _TYPES:
        raise BadInputError(f"unsupported kind of file {node.kind!r} in an image", f"Kinds: {', '.join(KINDS)}.")
    extended = xattrs != NO_XATTRS
    kind = _TYPES[node.kind] + (_EXTENDED if extended else 0)
    tail = UINT32.pack(xattrs) if extended else b""
    if node.kind == "symlink":
        return _LINK.pack(kind, *head, links, len(node.target)) + _checked_target(node.target) + tail
    if node.kind in ("block", "char"):
        return _DEVICE.pack(kind, *head, links, _device(*node.device)) + tail
    return _OTHER.pack(kind, *head, links) + tail


def _checked_target(target: bytes) -> bytes:
    if not 0 < len(target) <= _LONGEST_TARGET or b"\0" in target:
        shown = f"{target[:40]!r} ({len(target)} bytes)"
        raise BadInputError(f"a symlink to {shown}: expected 1 to {_LONGEST_TARGET} bytes without NUL")
    return target


def _device(major: int, minor: int) -> int:
    """Encode a device number as Linux does."""
    if not (0 <= major <= _LARGEST_MAJOR and 0 <= minor <= _LARGEST_MINOR):
        raise BadInputError(f"device {major}:{minor}: expected at most {_LARGEST_MAJOR}:{_LARGEST_MINOR}")
    return minor & 0xFF | major << 8 | (minor & ~0xFF) << 12
