"""Other programs read our squashfs images correctly: squashfs-tools, squashfs-tools-ng and squashfuse."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpcmod.images.squashfs import copying
from hpcmod.images.squashfs.nodes import read_tree
from hpcmod.images.squashfs.tree import Node
from hpcmod.images.squashfs.writer import SquashfsWriter
from tests.corpus import pack
from tests.squashfs_trees import (
    BLOCK,
    RICH,
    TIMEOUT,
    Entry,
    Tree,
    expanded,
    mounted,
    noise,
    read_mounted,
    read_tar,
    same_names,
    text,
    without,
    write_squashfs,
)

FORMS = [
    pytest.param({"compression": "zstd"}, id="zstd"),
    pytest.param({"compression": "gzip", "level": 9}, id="gzip 9"),
    pytest.param({"compression": "gzip", "level": 1, "block_size": 65536}, id="gzip 1"),
    pytest.param({"compression": "none"}, id="none"),
    pytest.param({"compression": "zstd", "level": 15, "block_size": 1 << 20}, id="zstd 15, largest blocks"),
    pytest.param({"compression": "zstd", "block_size": 131072}, id="zstd, usual blocks"),
]


def with_user_xattrs(tree: Tree) -> Tree:
    """Keep only the extended attributes that everyone can read."""
    return {
        path: replace(entry, xattrs=tuple(pair for pair in entry.xattrs if pair[0].startswith(b"user.")))
        for path, entry in tree.items()
    }


@pytest.mark.parametrize("form", FORMS)
def test_sqfs2tar_and_a_mount_give_back_every_field(tmp_path: Path, form: dict[str, object]) -> None:
    image = write_squashfs(tmp_path / "image", RICH, **form)  # type: ignore[arg-type]
    assert read_tar(image) == expanded(without(RICH, "socket"))
    with mounted(image, tmp_path / "mount", reader="squashfuse_ll") as place:  # as Apptainer does for users
        found = read_mounted(place)
    assert found == with_user_xattrs(expanded(RICH))


def test_a_mount_with_squashfuse_shows_every_field_but_hard_links(tmp_path: Path) -> None:
    image = write_squashfs(tmp_path / "image", RICH)
    with mounted(image, tmp_path / "mount", reader="squashfuse") as place:
        found = read_mounted(place)
    assert without(found, same_as=b"") == with_user_xattrs(without(expanded(RICH), same_as=b""))


@pytest.mark.parametrize("form", FORMS)
def test_unsquashfs_unpacks_every_file(tmp_path: Path, form: dict[str, object]) -> None:
    tree = without(expanded(RICH), "block", "char")  # creating these needs root
    tree[b"no-rights"] = replace(tree[b"no-rights"], mode=0o400)  # reading it back needs root
    image = write_squashfs(tmp_path / "image", tree, **form)  # type: ignore[arg-type]
    argv = ["unsquashfs", "-no-xattrs", "-no-progress", "-quiet", "-dest", tmp_path / "out", image]
    done = subprocess.run(argv, capture_output=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    for path, entry in read_mounted(tmp_path / "out").items():
        assert (entry.kind, entry.content, entry.target) == (tree[path].kind, tree[path].content, tree[path].target)


NAMES = st.binary(min_size=1, max_size=12).filter(lambda name: name not in (b".", b"..") and not {0, 47} & set(name))
XATTR_NAMES = st.tuples(
    st.sampled_from([b"user.", b"trusted.", b"security."]), st.text("abz.", min_size=1, max_size=9).map(str.encode)
).map(b"".join)
XATTRS = st.dictionaries(XATTR_NAMES, st.binary(max_size=30), max_size=3).map(
    lambda pairs: tuple(sorted(pairs.items()))
)
CONTENTS = st.one_of(
    st.binary(max_size=100),
    st.builds(noise, st.integers(0, 20_000), st.integers(0, 2)),
    st.builds(text, st.integers(0, 20_000)),
    st.lists(st.sampled_from([bytes(BLOCK), text(BLOCK), noise(BLOCK), b"odd"]), max_size=6).map(b"".join),
)
NUMBERS = st.integers(0, 0xFFFFFFFE)
COMMON = {"mode": st.integers(0, 0o7777), "uid": NUMBERS, "gid": st.integers(0, 3), "mtime": NUMBERS, "xattrs": XATTRS}
TARGETS = st.binary(min_size=1, max_size=200).filter(lambda target: 0 not in target)
DEVICES = st.tuples(st.integers(0, 4095), st.integers(0, 1048575))
DIRECTORIES = st.builds(Entry, st.just("dir"), **COMMON)
LEAVES = st.one_of(
    st.builds(Entry, st.just("file"), content=CONTENTS, **COMMON),
    st.builds(Entry, st.just("symlink"), target=TARGETS, **{**COMMON, "mode": st.just(0o777)}),
    st.builds(Entry, st.sampled_from(["block", "char"]), device=DEVICES, **COMMON),
    st.builds(Entry, st.just("fifo"), **COMMON),
)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Draw a tree with hard links: directories first, then leaves in any of them, then additional names for leaves."""
    tree = {b"": draw(DIRECTORIES)}

    def free_path() -> bytes:
        parent = draw(st.sampled_from([path for path, entry in tree.items() if entry.kind == "dir"]))
        name = draw(NAMES.filter(lambda name: (parent and parent + b"/") + name not in tree))
        return (parent and parent + b"/") + name

    for kinds in (DIRECTORIES, LEAVES):
        for entry in draw(st.lists(kinds, max_size=8)):
            tree[free_path()] = entry
    leaves = [path for path, entry in tree.items() if entry.kind != "dir"]
    for first in draw(st.lists(st.sampled_from(leaves), max_size=3)) if leaves else []:
        tree[free_path()] = replace(tree[first], same_as=first)
    return same_names({path: (entry.same_as or path, entry) for path, entry in tree.items()})


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    tree=trees(),
    compression=st.sampled_from(["zstd", "gzip", "none"]),
    block_size=st.sampled_from([BLOCK, 131072]),
)
def test_any_tree_is_read_back_by_sqfs2tar(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, compression: str, block_size: int
) -> None:
    image = tmp_path_factory.getbasetemp() / "image"
    write_squashfs(image, tree, compression=compression, block_size=block_size)
    assert read_tar(image) == tree


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tree]:
    """An image with indexed directories, and with hard links to inodes whose numbers are far apart."""
    tree = {b"": Entry("dir", 0o755), b"crowd": Entry("dir", 0o755), b"z": Entry("dir", 0o755)}
    tree |= {b"crowd/%05d" % number: Entry(content=b"%d" % number) for number in range(40_000)}
    tree |= {b"z/%05d" % number: Entry(same_as=b"crowd/%05d" % number) for number in range(0, 40_000, 3000)}
    tree |= {b"z/" + letter * 255: Entry("fifo", 0o600) for letter in (b"a", b"b", b"c")}
    tree |= {b"z/%s%03d" % (b"n" * 250, number): Entry("symlink", 0o777, target=b"t") for number in range(300)}
    tree[b"z-long"] = Entry("dir", 0o755, xattrs=((b"user.x", b"y"),))
    tree |= {b"z-long/%0250d" % number: Entry() for number in range(1000)}
    image = write_squashfs(tmp_path_factory.mktemp("crowded") / "image", tree, block_size=131072, chunk=1 << 20)
    return image, expanded(tree)


def test_sqfs2tar_reads_directories_with_an_index(crowded: tuple[Path, Tree]) -> None:
    image, tree = crowded
    assert read_tar(image) == tree


def test_every_name_in_a_directory_with_an_index_is_found_by_name(tmp_path: Path, crowded: tuple[Path, Tree]) -> None:
    image, tree = crowded
    with mounted(image, tmp_path / "mount", reader="squashfuse_ll") as place:
        for path in sorted(tree)[::37]:
            assert os.path.lexists(os.fsencode(place) + b"/" + path), path
            assert not os.path.lexists(os.fsencode(place) + b"/" + path[:-1] + b"~"), path
        assert [len(list((place / name).iterdir())) for name in ("crowd", "z", "z-long")] == [40_000, 317, 1000]
        first, second = os.lstat(place / "crowd/39000"), os.lstat(place / "z/39000")
        assert (first.st_ino, first.st_nlink) == (second.st_ino, 2)


@pytest.mark.parametrize("compression", ["gzip", "xz", "zstd", "lz4"])
def test_an_image_of_mksquashfs_with_a_file_more_is_the_same_tree(tmp_path: Path, compression: str) -> None:
    place = tmp_path / "tree"
    (place / "below" / "deep").mkdir(parents=True)
    (place / "text").write_bytes(text(300_000))  # two blocks and a fragment
    (place / "noise").write_bytes(noise(200_000))
    (place / "below" / "again").hardlink_to(place / "text")
    (place / "below" / "link").symlink_to("../text")
    (place / "below" / "deep" / "short").write_bytes(b"short")
    os.mkfifo(place / "fifo")
    os.setxattr(place / "noise", "user.large", b"v" * 700)
    os.setxattr(place / "text", "user.large", b"v" * 700)
    with (place / "hole").open("wb") as sparse:
        sparse.seek(1_000_000)
        sparse.write(b"end")
    image = pack(place, tmp_path / "image", "-comp", compression)
    copy = tmp_path / "copy"
    with image.open("rb") as file, copy.open("w+b") as new:
        tree = read_tree(file, 0, image.stat().st_size)
        shape = tree.blocks.superblock
        with SquashfsWriter(new, codec=copying.same_codec(tree.blocks), block_size=shape.block_size) as writer:
            tree.root.children[b"more"] = Node("file", 0o644, data=writer.add_file(4, [b"more"]))
            copying.copy_contents(tree.root, tree, writer)
            writer.finish(tree.root, mtime=0)
    found = read_tar(copy)
    assert found.pop(b"more").content == b"more"
    assert found == read_tar(image)
    with mounted(copy, tmp_path / "mounted", reader="squashfuse_ll") as there:
        assert {path: entry.content for path, entry in read_mounted(there).items() if path != b"more"} == {
            path: entry.content for path, entry in found.items()
        }
