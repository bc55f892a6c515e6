"""Read a user's packages, from a directory or a squashfs, as a tree to be added to an image.

The tree is what a container sees at /user-software: `venv/NAME/lib/pythonX.Y/site-packages` and anything else. In an
image all users read the same files, so everything gets root as its owner and is readable by all; setuid bits, devices
and attributes outside `user.` are left out.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.reading import open_regular
from hpcmod.core.fs.tree import Tree
from hpcmod.core.values.facts import Package
from hpcmod.images.squashfs import copying
from hpcmod.images.squashfs.nodes import SourceTree, read_tree
from hpcmod.images.squashfs.tree import FileData, Node
from hpcmod.images.squashfs.writer import SquashfsWriter
from hpcmod.images.values.metadata import METADATA, METADATA_LIMIT, read_package
from hpcmod.packages.values.sources import Editable, find_editable

_PIECE = 1 << 20
_MOST_FILES = 1_000_000
_PYTHON = re.compile(rb"python(\d+\.\d+)")
_KEPT = ("dir", "file", "symlink")


@dataclass(frozen=True)
class Venv:
    """A virtual environment among a user's packages."""

    name: str
    python: str
    """Version of its Python: 3.12."""
    root: Node
    site: Node
    """The directory site-packages."""


@dataclass(frozen=True)
class PackageTree:
    """A user's packages."""

    root: Node
    size: int
    """Bytes of the squashfs, or of the files of the directory."""
    source: SourceTree | None = None
    """Squashfs that contains them."""
    directory: Tree | None = None
    """Directory that contains them."""
    _paths: dict[Node, Path] = field(default_factory=dict)
    """Path of each node's file, relative to that directory."""

    def read(self, node: Node, limit: int) -> bytes:
        """Return at most the first `limit` bytes of a file."""
        if self.directory is not None:
            with self.directory.open_file(self._paths[node]) as file:
                return file.read(limit)
        content = bytearray()
        if self.source is not None and node.data is not None:
            for piece in copying.read_content(self.source.blocks, node.data):
                content += piece
                if len(content) >= limit:
                    break
        return bytes(content[:limit])

    def write_contents(self, writer: SquashfsWriter, root: Node) -> None:
        """Write the contents of all files, which are in the tree `root` of the new image."""
        if self.source is not None:
            copying.copy_contents(root, self.source, writer)
        for node, path in self._paths.items():
            if self.directory is not None and node.data is not None:
                with self.directory.open_file(path) as file:
                    node.data = writer.add_file(node.data.size, iter(partial(file.read, _PIECE), b""))

    def venvs(self) -> list[Venv]:
        """Return the virtual environments, sorted by name."""
        venvs = []
        for name, venv in sorted(_children(self.root, b"venv").items()):
            for version, directory in sorted(_children(venv, b"lib").items()):
                match, site = _PYTHON.fullmatch(version), directory_in(directory, b"site-packages")
                if match and site is not None:
                    venvs.append(Venv(os.fsdecode(name), match[1].decode(), venv, site))
        return venvs

    def packages(self, site: Node) -> tuple[Package, ...]:
        """Return the Python packages in a directory site-packages, sorted by name."""
        packages = (self._package(os.fsdecode(name), node) for name, node in site.children.items())
        return tuple(sorted(filter(None, packages), key=lambda package: (package.name.lower(), package.name)))

    def editable(self, site: Node) -> tuple[Editable, ...]:
        """Return the packages in a directory site-packages whose code is elsewhere, sorted by name."""
        editable = (
            find_editable(package.name, self._read_metadata(node, b"direct_url.json"))
            for name, node in site.children.items()
            if (package := self._package(os.fsdecode(name), node))
        )
        return tuple(sorted(filter(None, editable), key=lambda package: package.name))

    def _package(self, name: str, node: Node) -> Package | None:
        if not name.endswith(METADATA):
            return None
        return read_package(name, lambda path: self._read_metadata(node, path.partition("/")[2].encode()))

    def _read_metadata(self, node: Node, inner: bytes) -> str:
        """Return the text of a file in a package's directory of metadata, or of that itself if `inner` is empty."""
        file: Node | None = node
        if inner:
            file = node.children.get(inner) if node.kind == "dir" else None
        if file is None or file.kind != "file":
            return ""
        return self.read(file, METADATA_LIMIT).decode(errors="replace")


@contextmanager
def open_packages(path: Path) -> Iterator[PackageTree]:
    """Open a directory or a squashfs with a user's packages.

    Raises NotFoundError if it does not exist; BadInputError, VerificationError, LackingError if it is neither, or the
    squashfs is damaged or cannot be decompressed.
    """
    if path.is_dir():
        yield _read_directory(path)
        return
    try:
        file = open_regular(path)
    except FileNotFoundError as err:
        raise NotFoundError(
            f"{path}: no such file or directory", "Give the path of the packages: --packages PATH"
        ) from err
    with file:
        yield _read_squashfs(file)


def directory_in(node: Node, name: bytes) -> Node | None:
    """Return a directory in a directory; None if it is missing or something else."""
    child = node.children.get(name) if node.kind == "dir" else None
    return child if child is not None and child.kind == "dir" else None


def _children(node: Node, name: bytes) -> dict[bytes, Node]:
    directory = directory_in(node, name)
    return directory.children if directory is not None else {}


def _read_squashfs(file: BinaryIO) -> PackageTree:
    size = os.fstat(file.fileno()).st_size
    source = read_tree(file, 0, size)
    todo, seen = [source.root], set()
    _open_to_all(source.root)
    while todo:
        directory = todo.pop()
        for name, node in list(directory.children.items()):
            if node.kind not in _KEPT:
                del directory.children[name]
                continue
            if node not in seen:
                seen.add(node)
                _open_to_all(node)
            if node.kind == "dir":
                todo.append(node)
    return PackageTree(source.root, size, source)


def _read_directory(path: Path) -> PackageTree:
    paths: dict[Node, Path] = {}
    known: dict[tuple[int, int], Node] = {}
    root = Node("dir", 0o755)
    files = size = 0
    todo = [(root, path)]
    while todo:
        above, directory = todo.pop()
        for entry in sorted(os.scandir(directory), key=lambda entry: os.fsencode(entry.name)):
            status = entry.stat(follow_symlinks=False)
            node = known.get((status.st_dev, status.st_ino)) or _make_node(status, entry.path)
            if node is None:
                continue
            above.children[os.fsencode(entry.name)] = node
            if node.kind == "dir":
                todo.append((node, Path(entry.path)))
                continue
            files += 1
            if files > _MOST_FILES:
                raise BadInputError(f"{path}: more than {_MOST_FILES} files", "Give the directory of the packages.")
            if node.kind == "file" and node not in paths:
                known[status.st_dev, status.st_ino] = node
                paths[node] = Path(entry.path).relative_to(path)
                size += status.st_size
    _open_to_all(root)
    return PackageTree(root, size, directory=Tree(path), _paths=paths)


def _make_node(status: os.stat_result, path: str) -> Node | None:
    """Return the node of a file in a directory; None for devices, fifos and sockets."""
    mtime = int(status.st_mtime)
    if stat.S_ISLNK(status.st_mode):
        return Node("symlink", 0o777, mtime=mtime, target=os.fsencode(os.readlink(path)))  # noqa: PTH115 - exact
    if stat.S_ISDIR(status.st_mode):
        node = Node("dir", status.st_mode & 0o7777, mtime=mtime)
    elif stat.S_ISREG(status.st_mode):
        node = Node("file", status.st_mode & 0o7777, mtime=mtime, data=FileData(status.st_size))
    else:
        return None
    _open_to_all(node)
    return node


def _open_to_all(node: Node) -> None:
    """Make root the owner of a node, and let all users read it, as `chmod a+rX` does."""
    node.uid = node.gid = 0
    node.xattrs = tuple(pair for pair in node.xattrs if pair[0].startswith(b"user."))
    if node.kind == "symlink":
        return
    executable = node.kind == "dir" or node.mode & 0o111
    node.mode = node.mode & 0o755 | 0o444 | (0o111 if executable else 0) | (0o200)
