"""Layers are merged as umoci unpacks them, and contents that no one can see are not written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.images.layers.layer_tree import LayerTree
from hpcmod.images.layers.merge import Hidden, Record, merge_layers, missing, read_layer, read_missing
from hpcmod.images.layers.tar import walk
from hpcmod.images.squashfs.tree import FileData, Node
from tests.oci_corpus import CASES, CHAR, LayerEntries, Member, d, f, gone, hard, link, node, opaque, tar_bytes

Shown = Mapping[str, object]


class Store:
    """Records all contents that are added."""

    def __init__(self) -> None:
        self.contents: dict[int, bytes] = {}
        self.written: list[bytes] = []
        self._kept: list[FileData] = []

    def add(self, size: int, chunks: Iterable[bytes | memoryview]) -> FileData:
        data = FileData(size)
        self._kept.append(data)
        self.contents[id(data)] = b"".join(chunks)
        self.written.append(self.contents[id(data)])
        return data


def unpacked(layers: Sequence[LayerEntries]) -> tuple[LayerTree, Store, int]:
    """Read and merge layers, from the bottom; also return how many contents the second pass read."""
    store, hidden, read = Store(), Hidden(), []
    for layer in reversed(layers):
        records = read_layer(walk([tar_bytes(layer)]), hidden, store.add)
        hidden.add(records)
        read.insert(0, records)
    tree = merge_layers(read, mtime=7)
    needed = missing(tree.root)
    for layer, records in zip(layers, read):
        read_missing(walk([tar_bytes(layer)]), records, needed, store.add)
    assert not missing(tree.root)
    return tree, store, len(needed)


def shown(tree: LayerTree, store: Store) -> Shown:
    """Return a tree as text: contents of files, `-> target` for links, the kind of anything else."""
    found: dict[str, object] = {}

    def look(directory: Node, path: str) -> None:
        for name, each in directory.children.items():
            here = path + name.decode(errors="replace")
            if each.kind == "dir":
                found[f"{here}/"] = None
                look(each, f"{here}/")
            else:
                data = store.contents[id(each.data)].decode() if each.data else each.kind
                found[here] = f"-> {each.target.decode()}" if each.kind == "symlink" else data

    look(tree.root, "")
    return found


def merged(*layers: LayerEntries) -> Shown:
    tree, store, _ = unpacked(layers)
    return shown(tree, store)


EXPECTED: dict[str, Shown] = {
    "hard-link-original-deleted": {"b": "one"},
    "hard-link-original-replaced": {"a": "two", "b": "one"},
    "hard-link-to-lower-layer": {"a": "one", "b": "one"},
    "hard-link-to-lower-layer-then-deleted": {"b": "one"},
    "hard-link-to-lower-layer-deleted-in-same-layer": {"b": "one"},
    "hard-link-to-lower-layer-replaced-in-same-layer": {"a": "two", "b": "one"},
    "hard-link-forward": {"a": "one", "b": "one"},
    "hard-link-to-symlink": {"a": "one", "l": "-> a", "h": "-> a"},
    "hard-link-through-symlink": {"real/": None, "real/a": "one", "way": "-> real", "h": "one"},
    "directory-to-file": {"x": "two"},
    "directory-to-link": {"x": "-> z", "z/": None, "z/y": "two"},
    "file-to-directory": {"x/": None, "x/y": "two"},
    "file-to-directory-implied": {"x/": None, "x/y": "two"},
    "link-to-directory": {"x/": None, "x/w": "two", "z/": None, "z/y": "one"},
    "link-kept-and-written-through": {"x": "-> z", "z/": None, "z/y": "one", "z/w": "two"},
    "link-upwards-stays-inside": {"a/": None, "a/x": "-> ../../../z", "z/": None, "z/w": "two"},
    "link-dangling-written-through": {"x": "-> z", "z/": None, "z/w": "two"},
    "whiteout": {"x/": None, "x/z": "two"},
    "whiteout-directory": {},
    "whiteout-then-entry": {"x": "two"},
    "entry-then-whiteout": {"x": "two"},
    "whiteout-then-directory": {"x/": None, "x/new": "two"},
    "directory-then-whiteout": {"x/": None, "x/new": "two"},
    "whiteout-of-nothing": {"a": "x"},
    "whiteout-through-link": {"x": "-> z", "z/": None},
    "whiteout-of-link": {"z/": None, "z/y": "one"},
    "whiteout-two-layers-up": {},
    "whiteout-and-again": {"x": "three"},
    "opaque": {"x/": None, "x/new": "two"},
    "opaque-last": {"x/": None, "x/new": "two"},
    "opaque-deep": {"x/": None, "x/s/": None, "x/s/new": "2"},
    "opaque-on-link": {"x": "-> z", "z/": None, "z/new": "two"},
    "opaque-alone": {"x/": None},
    "parents-missing": {"a/": None, "a/b/": None, "a/b/c/": None, "a/b/c/d": "one"},
    "twice": {"x": "two"},
    "twice-other-kind": {"x/": None, "x/y": "1", "z": "two"},
    "twice-hard-linked": {"x": "two", "y": "one", "w": "two"},
    "names-upwards": {"up": "1", "l": "-> ../../../etc/passwd", "b": "2"},
    "empty-layer": {"a": "x", "b": "x"},
    "empty-image": {},
}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.slow
def test_an_edge_merges_into(name: str) -> None:
    assert merged(*CASES[name].layers) == EXPECTED[name]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "hard" in name and not case.accepted])
def test_a_hard_link_to_something_other_than_a_file_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match="hard link"):
        unpacked(CASES[name].layers)


def test_path_with_a_loop_of_links_is_refused() -> None:
    with pytest.raises(BadInputError, match="loop of symbolic links"):
        unpacked(CASES["link-circle"].layers)


@pytest.mark.parametrize("member", [f("."), link("/", "x"), node("./", CHAR)])
def test_a_root_that_is_not_a_directory_is_refused(member: Member) -> None:
    with pytest.raises(BadInputError):
        unpacked([[member]])


def test_names_of_hard_links_are_one_node() -> None:
    tree, _, _ = unpacked([[f("a"), d("s"), hard("s/b", "a")], [hard("c", "s/b")]])
    assert tree.root.children[b"a"] is tree.root.children[b"c"] is tree.root.children[b"s"].children[b"b"]


def test_a_hard_link_to_itself_changes_nothing() -> None:
    assert merged([f("a", "one"), hard("a", "a")]) == {"a": "one"}


def test_a_whiteout_of_the_root_keeps_the_files_of_its_layer() -> None:
    assert merged([f("a"), d("b"), f("b/c")], [f("b/new", "2"), f(".wh..wh..opq", "")]) == {"b/": None, "b/new": "2"}


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "x/.wh..."])
def test_whiteouts_of_no_name_take_nothing_away(name: str) -> None:
    assert merged([d("x"), f("x/a", "1")], [f(name, "")]) == {"x/": None, "x/a": "1"}


def test_a_directory_replaced_in_a_layer_is_not_written_into_any_more() -> None:
    found = merged([d("x"), f("x/a", "1"), link("x", "z"), f("x/b", "2")])
    assert found == {"x": "-> z", "z/": None, "z/b": "2"}


def test_a_link_replaced_in_a_layer_is_not_followed_any_more() -> None:
    found = merged([d("z"), link("x", "z"), f("x/a", "1"), d("x"), f("x/b", "2")])
    assert found == {"z/": None, "z/a": "1", "x/": None, "x/b": "2"}


def test_files_hidden_by_upper_layers_are_not_written() -> None:
    low = [d("gone"), d("o"), d("was"), *(f(name, "hidden") for name in ("same", "gone/a", "o/a", "was/a"))]
    high = [f("same", "seen"), gone("gone"), d("o"), opaque("o"), f("o/b", "seen"), f("was", "seen")]
    tree, store, again = unpacked([low, high])
    assert store.written == [b"seen"] * 3
    assert again == 0
    assert shown(tree, store) == {"same": "seen", "o/": None, "o/b": "seen", "was": "seen"}


def test_a_file_whited_out_by_its_own_layer_is_kept() -> None:
    _, store, again = unpacked([[f("x", "low")], [gone("x"), f("x", "high")]])
    assert (store.written, again) == ([b"high"], 0)


@pytest.mark.parametrize(
    ("layers", "needed"),
    [
        ([[f("a", "one")], [hard("b", "a")], [gone("a")]], 1),
        ([[d("z"), f("z/a", "one")], [link("x", "z")], [gone("z/b"), f("z/w")]], 0),
        ([[f("u/a", "one"), link("x", "u")], [hard("b", "x/a"), gone("u")]], 1),
    ],
)
def test_layers_read_again_are_counted(layers: Sequence[LayerEntries], needed: int) -> None:
    assert unpacked(layers)[2] == needed


def test_directories_keep_their_metadata_or_get_that_of_the_image() -> None:
    tree, _, _ = unpacked([[d("x", 0o711, mtime=5), f("x/a")], [f("x/b"), f("y/c")]])
    described, implied = tree.root.children[b"x"], tree.root.children[b"y"]
    assert (described.mode, described.mtime) == (0o711, 5)
    assert (implied.mode, implied.mtime) == (0o775, 7)


def test_owners_devices_and_what_only_root_may_set_are_squashed() -> None:
    pax = ((b"SCHILY.xattr.user.a", b"1"), (b"SCHILY.xattr.security.capability", b"2"))
    layers = [[f("a", uid=5, gid=6, pax=pax), node("c", CHAR, 0o620, (5, 1))]]
    root = unpacked(layers)[0].root.children
    assert (root[b"a"].uid, root[b"a"].gid, root[b"a"].xattrs) == (0, 0, ((b"user.a", b"1"),))
    assert (root[b"c"].kind, root[b"c"].mode, root[b"c"].device) == ("file", 0o620, (0, 0))


def test_a_path_of_thousands_of_names_is_fast() -> None:
    deep = "/".join(["d"] * 2000)
    tree, store, _ = unpacked([[f(f"{deep}/a", "1")], [f(f"{deep}/b", "2"), gone(f"{deep}/a")]])
    assert len(shown_depth(tree.root)) == 2000
    assert store.written == [b"2"]


def shown_depth(directory: Node) -> list[bytes]:
    names = []
    while b"d" in directory.children:
        directory = directory.children[b"d"]
        names.append(b"d")
    return names


def test_a_needed_directory_is_made_once_and_refused_where_a_file_is() -> None:
    tree = LayerTree(mtime=3)
    tree.need_directory(b"var/tmp")
    tree.root.children[b"var"].mode = 0o700
    tree.need_directory(b"var/tmp")
    assert tree.root.children[b"var"].mode == 0o700
    tree.put(b"f", Node("file", 0o644, data=FileData(0)))
    with pytest.raises(BadInputError, match="/f/x"):
        tree.need_directory(b"f/x")


def test_records_contain_every_member() -> None:
    records: list[Record] = read_layer(walk([tar_bytes([f("a"), hard("b", "/a"), gone("c")])]), Hidden(), Store().add)
    assert [(path, getattr(found, "kind", found)) for path, found in records] == [
        *((b"a", "file"), (b"b", b"a"), (b".wh.c", None))
    ]
