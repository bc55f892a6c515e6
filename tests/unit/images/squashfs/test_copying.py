from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.images.squashfs import copying
from hpcmod.images.squashfs.codecs import Codec, codec
from hpcmod.images.squashfs.nodes import read_tree
from hpcmod.images.squashfs.reader import Squashfs
from hpcmod.images.squashfs.tree import Node
from hpcmod.images.squashfs.writer import SquashfsWriter
from tests.squashfs_trees import BLOCK, RICH, Entry, Tree, directory, expanded, noise, text, write_squashfs

SMALL: Tree = {
    b"": directory(),
    b"keep": Entry(content=text(3 * BLOCK + 5), mode=0o755, uid=3, xattrs=((b"user.a", b"b"),)),
    b"keep-too": Entry(same_as=b"keep"),
    b"tail": Entry(content=b"in a fragment"),
    b"gone": Entry(content=noise(5 * BLOCK)),
    b"below": directory(),
    b"below/hole": Entry(content=bytes(3 * BLOCK) + b"end"),
}


def rewrite(source: Path, target: Path, change: object = None, *, chosen: Codec | None = None) -> int:
    """Copy the tree of a squashfs, changed by a function, into a new one; return the number of blocks compressed."""
    with source.open("rb") as file, target.open("w+b") as new:
        tree = read_tree(file, 0, source.stat().st_size)
        shape = tree.blocks.superblock
        made, count = counting(chosen or copying.same_codec(tree.blocks))
        with SquashfsWriter(new, codec=made, block_size=shape.block_size) as writer:
            if callable(change):
                change(tree.root, writer)
            before = len(count)
            copying.copy_contents(tree.root, tree, writer)
            used = len(count) - before
            writer.finish(tree.root, mtime=1_700_000_000)
    return used


def counting(codec: Codec) -> tuple[Codec, list[int]]:
    count: list[int] = []

    def pack(blocks):  # type: ignore[no-untyped-def]
        count.extend(map(len, blocks))
        return codec.pack(blocks)

    return replace(codec, pack=pack), count


def contents(image: Path, tree: Tree) -> dict[bytes, bytes]:
    with image.open("rb") as file:
        squashfs = Squashfs(file, 0, image.stat().st_size)
        return {
            path: squashfs.read_bytes("/" + path.decode("utf-8", "surrogateescape"), 1 << 30)
            for path, entry in tree.items()
            if entry.kind == "file"
        }


def wanted(tree: Tree) -> dict[bytes, bytes]:
    return {path: entry.content for path, entry in expanded(tree).items() if entry.kind == "file"}


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["zstd", "gzip", "none"])
def test_a_copied_tree_is_equal_and_copies_to_the_same_bytes(tmp_path: Path, compression: str) -> None:
    image = write_squashfs(tmp_path / "image", RICH, compression=compression)
    assert rewrite(image, tmp_path / "copy") == 0
    assert contents(tmp_path / "copy", expanded(RICH)) == wanted(RICH)
    if compression != "none":  # the tables of the copy are compressed
        assert (tmp_path / "copy").read_bytes() == image.read_bytes()


def test_files_are_added_replaced_and_removed_without_compressing_the_others(tmp_path: Path) -> None:
    image = write_squashfs(tmp_path / "image", SMALL)

    def change(root: Node, writer: SquashfsWriter) -> None:
        del root.children[b"gone"]
        for name, content in ((b"new", noise(2 * BLOCK, 9)), (b"tail", b"replaced")):
            root.children[name] = Node("file", 0o600, data=writer.add_file(len(content), [content]))

    assert rewrite(image, tmp_path / "copy", change) == 3  # two new blocks and a new fragment
    expected = {**wanted(SMALL), b"new": noise(2 * BLOCK, 9), b"tail": b"replaced"}
    del expected[b"gone"]
    tree = {path: Entry() for path in expected}
    assert contents(tmp_path / "copy", tree) == expected
    assert (tmp_path / "copy").stat().st_size < image.stat().st_size - 2 * BLOCK


def test_another_compressor_compresses_the_contents_again(tmp_path: Path) -> None:
    image = write_squashfs(tmp_path / "image", SMALL, compression="gzip")
    rewrite(image, tmp_path / "copy", chosen=codec("zstd"))
    assert (tmp_path / "copy").read_bytes()[20] == codec("zstd").number
    assert contents(tmp_path / "copy", expanded(SMALL)) == wanted(SMALL)


def test_two_images_are_put_into_one(tmp_path: Path) -> None:
    one = write_squashfs(tmp_path / "one", SMALL)
    two = write_squashfs(
        tmp_path / "two", {b"": directory(), b"x": Entry(content=text(BLOCK)), b"y": Entry(content=b"y")}
    )
    with one.open("rb") as first, two.open("rb") as second, (tmp_path / "both").open("w+b") as new:
        trees = [read_tree(file, 0, path.stat().st_size) for file, path in ((first, one), (second, two))]
        trees[0].root.children[b"second"] = trees[1].root
        with SquashfsWriter(new, codec=copying.same_codec(trees[0].blocks), block_size=BLOCK) as writer:
            for tree in trees:
                copying.copy_contents(trees[0].root, tree, writer)
            writer.finish(trees[0].root, mtime=0)
    expected = {**wanted(SMALL), b"second/x": text(BLOCK), b"second/y": b"y"}
    assert contents(tmp_path / "both", {path: Entry() for path in expected}) == expected
