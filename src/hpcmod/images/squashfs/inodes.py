"""Write the inodes and directory listings of a squashfs 4.0 from a tree of nodes.

Inodes begin with uint16 type, uint16 mode, uint16 user, uint16 group, uint32 mtime, uint32 number; each kind has a
basic form, and an extended form (type + 7) for values that do not fit.

The children of a directory get consecutive numbers, and their inodes are together in the order of the listing; those of
subdirectories are written after their contents. A listing longer than 8 KiB gets an index in its inode.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from hpcmod.core.errors import BadInputError
from hpcmod.images.squashfs.codecs import Codec
from hpcmod.images.squashfs.format import ENTRY, LARGEST_RUN, METADATA_SIZE, NO_XATTRS, RUN, UINT32
from hpcmod.images.squashfs.tables import Ids, Metadata, Xattrs
from hpcmod.images.squashfs.tree import KINDS, FileData, Node

_TYPES = {kind: number for number, kind in enumerate(KINDS, 1)}
_EXTENDED = 7
_LONGEST_NAME = 255
_LONGEST_TARGET = 4095  # as on Linux, which counts the final NUL
_LARGEST_TIME = 0xFFFFFFFF
_LARGEST_MAJOR, _LARGEST_MINOR = 0xFFF, 0xFFFFF
_LARGEST_BASIC = 0xFFFFFFFF  # size and offset in the basic form of a file
_LARGEST_BASIC_LISTING = 0xFFFF
_LISTING_EXTRA = 3  # the format counts 3 extra bytes for `.` and `..`
_MOST_INDEXED = 0xFFFF

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

    The data of all nodes must have been written.

    Raises BadInputError if squashfs does not support something in the tree: a name, a target, an owner, a device
    number, or a directory with two names.
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
        self._add_all([root], [1], len(self._numbers) + 1)  # as in mksquashfs: a nonexistent parent
        self.root = self.references[0]
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
        _check_names(names)
        children = [directory.children[name] for name in names]
        numbers = [self._numbers[child] for child in children]
        if self._links.keys().isdisjoint(children):
            self._add_all(children, numbers, self._numbers[directory])
        else:  # a hard link's inode may be written already, or be here twice
            new = [child for child in dict.fromkeys(children) if self.references[self._numbers[child] - 1] < 0]
            self._add_all(new, [self._numbers[child] for child in new], self._numbers[directory])
        references = [self.references[number - 1] for number in numbers]
        kinds = [_TYPES[child.kind] for child in children]
        self._listing_of[directory] = _write_listing(self.listings, names, numbers, references, kinds)

    def _add_all(self, nodes: list[Node], numbers: list[int], parent: int) -> None:
        """Write the inodes of nodes that are in the same directory."""
        packed = (self._pack(node, number, parent) for node, number in zip(nodes, numbers))
        for number, reference in zip(numbers, self.inodes.append_all(packed)):
            self.references[number - 1] = reference

    def _pack(self, node: Node, number: int, parent: int) -> bytes:
        """Return an inode."""
        kind, mtime, ids = node.kind, node.mtime, self.ids
        if not 0 <= mtime <= _LARGEST_TIME:
            mtime = min(max(mtime, 0), _LARGEST_TIME)
        head = (node.mode & 0o7777, ids[node.uid], ids[node.gid], mtime, number)
        xattrs = self.xattrs.number(node.xattrs) if node.xattrs else NO_XATTRS
        if kind == "file":
            return _file(head, node.data or _EMPTY, self._links.get(node, 1), xattrs)
        if kind == "dir":
            return _dir(head, self._listing_of.pop(node), parent, xattrs)
        return _other(head, node, self._links.get(node, 1), xattrs)


class _Listing(NamedTuple):
    """A directory's listing, as its inode describes it."""

    reference: int
    size: int
    marks: list[bytes]
    """The entries of its index."""
    directories: int


def _check_names(names: list[bytes]) -> None:
    """Check the sorted names of a directory: together, because there may be a million of them."""
    together = b"".join(names)
    if b"/" in together or b"\0" in together or not all(names) or max(map(len, names), default=0) > _LONGEST_NAME:
        wrong = [name for name in names if not 0 < len(name) <= _LONGEST_NAME or b"/" in name or b"\0" in name]
    else:
        wrong = [name for name in (b".", b"..") if name in names]
    if wrong:
        raise BadInputError(f"a file named {wrong[0][:300]!r}: expected 1 to {_LONGEST_NAME} bytes without / and NUL")


def _write_listing(
    metadata: Metadata, names: list[bytes], numbers: list[int], references: list[int], kinds: list[int]
) -> _Listing:
    """Write a listing: runs of entries, and an index with the first name about every 8 KiB.

    `names` are the sorted names of the children; then follow the number, reference and type of the inode of each.
    """
    start, pack = metadata.reference(), ENTRY.pack
    index: list[bytes] = []
    run = bytearray()
    count = block = base = size = marked = space = 0
    for name, number, reference, kind in zip(names, numbers, references, kinds):
        step = number - base
        if (
            reference >> 16 != block
            or not 0 < count < LARGEST_RUN
            or not -0x8000 <= step <= 0x7FFF
            or len(run) + len(name) > space
        ):
            size += _close_run(metadata, run, count, block, base)
            step, count, block, base = 0, 0, reference >> 16, number
            if size + RUN.size + ENTRY.size + len(name) - marked > METADATA_SIZE and len(index) < _MOST_INDEXED:
                index.append(_INDEX.pack(size, metadata.reference() >> 16, len(name) - 1) + name)
                marked = size
            space = METADATA_SIZE - RUN.size - ENTRY.size + marked - size
        run += pack(reference & 0xFFFF, step, kind, len(name) - 1)
        run += name
        count += 1
    size += _close_run(metadata, run, count, block, base)
    return _Listing(start, size, index, kinds.count(_TYPES["dir"]))


def _close_run(metadata: Metadata, run: bytearray, count: int, block: int, base: int) -> int:
    """Write a run, and empty it; return its bytes."""
    if not count:
        return 0
    size = RUN.size + len(run)
    metadata.append(RUN.pack(count - 1, block, base))
    metadata.append(run)
    run.clear()
    return size


def _file(head: _Head, data: FileData, links: int, xattrs: int) -> bytes:
    start, size = data.start, data.size
    if start < 0:
        start = 0
    sizes = struct.pack(f"<{len(data.sizes)}I", *data.sizes) if data.sizes else b""
    if links == 1 and xattrs == NO_XATTRS and not data.holes and start <= _LARGEST_BASIC and size <= _LARGEST_BASIC:
        return _FILE.pack(2, *head, start, data.fragment, data.offset, size) + sizes
    spared = min(
        data.holes, max(data.size - 1, 0)
    )  # for a file that is one hole, Linux would compute a negative block count
    packed = _LONG_FILE.pack(9, *head, start, data.size, spared, links, data.fragment, data.offset, xattrs)
    return packed + sizes


def _dir(head: _Head, listing: _Listing, parent: int, xattrs: int) -> bytes:
    block, offset = listing.reference >> 16, listing.reference & 0xFFFF
    links, size = listing.directories + 2, listing.size + _LISTING_EXTRA
    if xattrs == NO_XATTRS and not listing.marks and size <= _LARGEST_BASIC_LISTING:
        return _DIR.pack(1, *head, block, links, size, offset, parent)
    count = len(listing.marks)
    packed = _LONG_DIR.pack(8, *head, links, size, block, parent, count, offset, xattrs)
    return packed + b"".join(listing.marks)


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
