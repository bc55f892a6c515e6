"""Write a directory as a squashfs, and back: the same files give the same bytes, for any user at any time."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.reading import open_regular
from hpcmod.images.squashfs.codecs import codec
from hpcmod.images.squashfs.copying import read_content
from hpcmod.images.squashfs.nodes import SourceTree, read_tree
from hpcmod.images.squashfs.tree import Node
from hpcmod.images.squashfs.writer import SquashfsWriter

_CHUNK = 1 << 20
_DEEPEST = 250  # levels of directories


@dataclass(frozen=True)
class Packed:
    """What was written."""

    size: int
    """Bytes of the squashfs."""
    files: int
    """Number of files, links and directories in it."""
    content: int
    """Bytes of all files before compression."""


def pack_directory(root: Path, file: BinaryIO, *, compression: str, mtime: int) -> Packed:
    """Write everything below a directory as a squashfs at the position of an open file.

    Links are stored, not followed. All files belong to root and have the same time; of the permissions only whether
    the owner may execute a file is kept, so that everyone who may read the squashfs can use it.

    `mtime` is the time in Unix seconds.

    Raises BadInputError if there is anything but files, links and directories, and VerificationError if a file changes
    while it is read.
    """
    with SquashfsWriter(file, codec=codec(compression)) as writer:
        packing = _Packing(writer, mtime)
        size = writer.finish(packing.directory(root, _DEEPEST), mtime=mtime)
    return Packed(size, packing.files, packing.content)


class _Packing:
    """The tree that is being packed."""

    def __init__(self, writer: SquashfsWriter, mtime: int) -> None:
        self._writer, self._mtime = writer, mtime
        self.files = self.content = 0

    def directory(self, path: Path, levels: int) -> Node:
        if not levels:
            raise BadInputError(f"{path}: is nested too deeply")
        node = Node("dir", 0o755, mtime=self._mtime)
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        for entry in entries:
            node.children[os.fsencode(entry.name)] = self._entry(Path(entry.path), levels)
            self.files += 1
        return node

    def _entry(self, path: Path, levels: int) -> Node:
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            return self.directory(path, levels - 1)
        if stat.S_ISLNK(status.st_mode):
            return Node("symlink", 0o777, mtime=self._mtime, target=os.fsencode(path.readlink()))
        if not stat.S_ISREG(status.st_mode):
            raise BadInputError(f"{path}: is neither a file, a link nor a directory", "Remove it.")
        self.content += status.st_size
        mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
        data = self._writer.add_file(status.st_size, _chunks(path))
        return Node("file", mode, mtime=self._mtime, data=data)


def _chunks(path: Path) -> Iterator[bytes]:
    with open_regular(path, follow=False) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def unpack(file: BinaryIO, target: Path, *, skipped: Collection[str] = ()) -> int:
    """Write files, directories and links into a new or empty directory of this user; return the number of files.

    Owners, times and anything else are left out; of the permissions only whether a file is executable is kept.
    The names in `skipped` are left out, wherever they are.

    Raises BadInputError, VerificationError, LackingError if it is not a squashfs, is damaged, or cannot be
    decompressed.
    """
    tree = read_tree(file, 0, os.fstat(file.fileno()).st_size)
    left_out = {os.fsencode(name) for name in skipped}
    target.mkdir(exist_ok=True)
    todo = [(tree.root, target)]
    files = 0
    while todo:
        node, place = todo.pop()
        for key, child in node.children.items():
            path = place / os.fsdecode(key)
            if key in left_out:
                continue
            if child.kind == "dir":
                path.mkdir()
                todo.append((child, path))
            elif child.kind == "symlink":
                path.symlink_to(os.fsdecode(child.target))
            elif child.kind == "file":
                _write(tree, child, path)
                files += 1
    return files


def _write(tree: SourceTree, node: Node, path: Path) -> None:
    with path.open("xb") as file:
        for piece in read_content(tree.blocks, node.data) if node.data is not None else ():
            file.write(piece)
    if node.mode & 0o111:
        path.chmod(path.stat().st_mode | (path.stat().st_mode & 0o444) >> 2)
