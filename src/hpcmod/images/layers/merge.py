"""Merge layers into one tree: choose from the top which contents to write, then build the final tree.

Both passes see each member of each layer once. The first, `read_layer`, starts at the top layer while the layers are
decompressed, and writes a file's content unless an upper layer hides its name: a guess by names, nearly always right.
The second, `merge_layers`, starts at the bottom, reads the records of the first, and is exact: it follows umoci, with
which Apptainer unpacks. Contents that are needed but were not written are returned by `missing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Union

from hpcmod.images.layers.layer_tree import OPAQUE, WHITEOUT, LayerTree
from hpcmod.images.layers.tar import TarEntry
from hpcmod.images.layers.tar_fields import Bytes
from hpcmod.images.squashfs.tree import FileData, Node, files_in

Record = tuple[bytes, Union[Node, bytes, None]]
"""A path and its entry in a layer: a node, the target of a hard link, or None for a whiteout."""

AddFile = Callable[[int, Iterable[Bytes]], FileData]
"""Writes the content of a file, given its size in bytes."""

_MOST_KNOWN = 1 << 14  # directories, with paths of up to 4 KiB each


class Hidden:
    """The names that upper layers hide in lower layers.

    An entry hides the same name in lower layers, except for directories; an opaque directory hides all their entries.
    """

    def __init__(self) -> None:
        self._names: set[bytes] = set()
        self._covering: set[bytes] = set()
        self._known: dict[bytes, bool] = {}

    def hides(self, path: bytes) -> bool:
        """Return whether a lower layer's file at this path is hidden."""
        return path in self._names or self._covered(path.rpartition(b"/")[0])

    def _covered(self, directory: bytes) -> bool:
        """Return whether everything in a directory is hidden."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        asked = []
        while (found := self._known.get(directory)) is None:
            asked.append(directory)
            if not directory or directory in self._covering:
                found = directory in self._covering
                break
            directory = directory.rpartition(b"/")[0]
        if asked:
            self._known.update(dict.fromkeys(asked, found))
        return found

    def add(self, records: Sequence[Record]) -> None:
        """Add the names that a layer hides in lower layers."""
        for path, found in records:
            if found is not None:
                self._names.add(path)
                if isinstance(found, bytes) or found.kind != "dir":
                    self._covering.add(path)
                continue
            directory, _, name = path.rpartition(b"/")
            if name == OPAQUE:
                self._covering.add(directory)
            else:
                self._covering.add(_whited_out(directory, name))
                self._names.add(_whited_out(directory, name))
        self._known.clear()


def _whited_out(directory: bytes, name: bytes) -> bytes:
    name = name[len(WHITEOUT) :]
    return directory + b"/" + name if directory else name


def read_layer(entries: Iterable[TarEntry], hidden: Hidden, add_file: AddFile) -> list[Record]:
    """Record the entries of a layer, and write the contents of files that no upper layer hides.

    Root owns all files, and devices become empty files, as with Apptainer for an ordinary user.

    `hidden` has the names hidden by the layers above; `add_file` writes a content.
    """
    records: list[Record] = []
    for entry in entries:
        path = entry.path
        found: Node | bytes | None
        if path.rpartition(b"/")[2].startswith(WHITEOUT):
            found = None
        elif entry.kind == "hard":
            found = entry.target
        else:
            kind = "file" if entry.kind in ("char", "block") else entry.kind
            found = Node(kind, entry.mode, mtime=entry.mtime, xattrs=entry.xattrs, target=entry.target)
            if found.kind == "file" and not hidden.hides(path):
                found.data = add_file(entry.size, entry.chunks())
        records.append((path, found))
    return records


def read_missing(entries: Iterable[TarEntry], records: Sequence[Record], missing: set[int], add_file: AddFile) -> None:
    """Read a layer again, and write the missing contents.

    Reads to the end in any case, because only then is the layer's digest verified again.
    """
    known = iter(records)
    for entry in entries:
        _, found = next(known, (b"", None))
        if id(found) in missing and isinstance(found, Node):
            found.data = add_file(entry.size, entry.chunks())


def merge_layers(
    layers: Iterable[Sequence[Record]], *, mtime: int, on_directory: Callable[[], None] = lambda: None
) -> LayerTree:
    """Merge layers from the bottom up into the tree that a container sees.

    `mtime` is that of directories that are in no layer (Unix seconds); `on_directory` is called before each is created.

    Raises BadInputError if a hard link is broken, a path has a loop of links, or the root is not a directory.
    """
    tree = LayerTree(mtime=mtime, on_directory=on_directory)
    for records in layers:
        tree.begin_layer(has_whiteouts=any(found is None for _, found in records))
        for path, found in records:
            if found is None:
                tree.white_out(path)
            elif isinstance(found, bytes):
                tree.put_hard_link(path, found)
            else:
                tree.put(path, found)
        tree.end_layer()
    return tree


def missing(root: Node) -> set[int]:
    """Return the ids of all files in a tree whose content has not been written."""
    return {id(node) for node in files_in(root) if node.data is None}
