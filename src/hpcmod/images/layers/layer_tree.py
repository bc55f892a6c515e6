"""Merge layers into a file tree without unpacking them, by the rules of umoci, which Apptainer uses.

A path is resolved inside the image: symbolic links in its parents are followed with the container's root as the root,
the last component is not followed. A whiteout removes entries of lower layers, never those of its own layer.
"""

from __future__ import annotations

from collections.abc import Callable

from hpcmod.core.errors import BadInputError
from hpcmod.images.layers.tar_fields import REBUILD
from hpcmod.images.squashfs.tree import Node

WHITEOUT, OPAQUE = b".wh.", b".wh..wh..opq"

_MOST_LINKS = 255  # links followed per path, as in umoci
_ROOT_MODE, _NEEDED_MODE = 0o755, 0o755
_IMPLIED_MODE = 0o775  # 0777 with Apptainer's umask 002

_Place = tuple[Node, bytes]
"""A directory, and a name in it."""


class LayerTree:
    """A file tree to which layers are added from the bottom up.

    `mtime` is that of directories that are in no layer (Unix seconds); `on_directory` is called before each is created.
    """

    def __init__(self, *, mtime: int, on_directory: Callable[[], None] = lambda: None) -> None:
        self.root = Node("dir", _ROOT_MODE, mtime=mtime)
        self._mtime = mtime
        self._on_directory = on_directory
        self._directories: dict[bytes, Node] = {}
        """Resolved directories by path, in this layer."""
        self._touched: set[_Place] = set()
        """Nodes that this layer added, and their parents."""
        self._has_whiteouts = False
        self._forward: list[tuple[bytes, bytes]] = []
        """Hard links whose target does not exist yet."""

    def begin_layer(self, *, has_whiteouts: bool) -> None:
        """Start the next layer; only if it has whiteouts, its nodes are recorded."""
        self._touched.clear()
        self._has_whiteouts = has_whiteouts
        self._directories.clear()

    def end_layer(self) -> None:
        """Create the hard links whose targets came after them.

        Raises BadInputError if a target is missing or a directory.
        """
        forward, self._forward = self._forward, []
        for path, target in forward:
            if not self._link(path, target):
                shown = [each.decode(errors="replace")[:200] for each in (path, target)]
                raise BadInputError(
                    f"hard link {shown[0]} of the image points to {shown[1]}, which is not a file", REBUILD
                )

    def put(self, path: bytes, node: Node) -> None:
        """Add a node at a path; an existing directory only gets the new mode, owner and time.

        Raises BadInputError if the path has a loop of links, or the node replaces the root and is not a directory.
        """
        if not path:
            if node.kind != "dir":
                raise BadInputError("the image's root is not a directory", REBUILD)
            _describe(self.root, node)
            return
        directory, name = self._place(path)
        old = directory.children.get(name)
        if old is None:
            directory.children[name] = node
        elif old.kind == "dir" and node.kind == "dir":
            _describe(old, node)
        else:
            self._replace(directory, name, node)

    def put_hard_link(self, path: bytes, target: bytes) -> None:
        """Add a hard link to a file at a path."""
        if not self._link(path, target):
            self._forward.append((path, target))

    def need_directory(self, path: bytes) -> None:
        """Create a directory unless the path is already one.

        Raises BadInputError if the path is something else.
        """
        trail, absent = self._resolve(path)
        if absent and absent[0] in trail[-1][0].children:
            raise BadInputError(f"the image has a file instead of the directory /{path.decode()}", REBUILD)
        self._make((trail, absent), _NEEDED_MODE)

    def white_out(self, path: bytes) -> None:
        """Remove entries of lower layers: all in a directory, or the one named after the whiteout prefix."""
        above, _, name = path.rpartition(b"/")
        directory = self._find(above)
        if directory is None:
            return
        if name == OPAQUE:
            self._clear(directory)
        else:
            self._remove(directory, name[len(WHITEOUT) :])

    def _link(self, path: bytes, target: bytes) -> bool:
        above, _, name = target.rpartition(b"/")
        directory = self._find(above)
        node = directory.children.get(name) if directory is not None else None
        if node is None or node.kind == "dir" or not path:
            return False
        place = self._place(path)
        if place[0].children.get(place[1]) is not node:
            self._replace(*place, node)
        return True

    def _replace(self, directory: Node, name: bytes, node: Node) -> None:
        old = directory.children.pop(name, None)
        if old is not None and old.kind in ("dir", "symlink"):
            self._directories.clear()
        directory.children[name] = node

    def _place(self, path: bytes) -> _Place:
        """Find or create the parent directory of a path, and record that this layer has something there."""
        above, _, name = path.rpartition(b"/")
        directory = self._directories.get(above)
        if directory is None:
            directory = self._directories[above] = self._make(self._resolve(above), _IMPLIED_MODE)
        if self._has_whiteouts:
            self._touched.add((directory, name))
        return directory, name

    def _find(self, path: bytes) -> Node | None:
        """Find a directory; None if missing."""
        known = self._directories.get(path)
        if known is not None:
            return known
        trail, absent = self._resolve(path)
        return None if absent else trail[-1][0]

    def _resolve(self, path: bytes) -> tuple[list[_Place], list[bytes]]:
        """Resolve the path of a directory.

        Returns
        -------
        tuple
            The directories along the path, each with its name in the parent; and the remaining names that are missing
            or not directories.
        """
        trail: list[_Place] = [(self.root, b"")]
        absent: list[bytes] = []
        todo = path.split(b"/")[::-1]
        links = 0
        while todo:
            name = todo.pop()
            if name in (b"", b"."):
                continue
            if name == b"..":
                if absent:
                    absent.pop()
                elif len(trail) > 1:
                    trail.pop()
                continue
            node = None if absent else trail[-1][0].children.get(name)
            if node is None or node.kind not in ("dir", "symlink"):
                absent.append(name)
            elif node.kind == "dir":
                trail.append((node, name))
            else:
                links += 1
                if links > _MOST_LINKS:
                    shown = path.decode(errors="replace")[:200]
                    raise BadInputError(f"the image's path {shown} has a loop of symbolic links", REBUILD)
                if node.target.startswith(b"/"):
                    del trail[1:]
                todo += node.target.split(b"/")[::-1]
        return trail, absent

    def _make(self, found: tuple[list[_Place], list[bytes]], mode: int) -> Node:
        """Create the missing directories, and replace other files in their place."""
        trail, absent = found
        for (above, _), (_, name) in zip(trail, trail[1:]):
            self._touched.add((above, name))
        directory = trail[-1][0]
        for name in absent:
            self._on_directory()
            new = Node("dir", mode, mtime=self._mtime)
            self._touched.add((directory, name))
            self._replace(directory, name, new)
            directory = new
        return directory

    def _remove(self, directory: Node, name: bytes) -> None:
        node = directory.children.get(name)
        if node is None:
            return
        if (directory, name) not in self._touched:
            self._replace_by_nothing(directory, name)
        elif node.kind == "dir":
            self._clear(node)

    def _replace_by_nothing(self, directory: Node, name: bytes) -> None:
        if directory.children.pop(name).kind in ("dir", "symlink"):
            self._directories.clear()

    def _clear(self, directory: Node) -> None:
        """Remove everything in a directory that is not from this layer."""
        todo = [directory]
        while todo:
            here = todo.pop()
            for name in list(here.children):
                if (here, name) not in self._touched:
                    self._replace_by_nothing(here, name)
                elif here.children[name].kind == "dir":
                    todo.append(here.children[name])


def _describe(directory: Node, said: Node) -> None:
    """Set the mode, owner and time of a directory to those of another node."""
    directory.mode, directory.uid, directory.gid = said.mode, said.uid, said.gid
    directory.mtime, directory.xattrs = said.mtime, said.xattrs
