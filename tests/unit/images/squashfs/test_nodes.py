from __future__ import annotations

import random
import resource
import struct
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, HpcmodError, VerificationError
from hpcmod.images.squashfs import copying
from hpcmod.images.squashfs.codecs import codec
from hpcmod.images.squashfs.nodes import read_tree
from hpcmod.images.squashfs.tree import FileData, Node
from hpcmod.images.squashfs.writer import SquashfsWriter
from tests.squashfs_trees import BLOCK, RICH, Entry, Tree, directory, expanded, noise, text, write_squashfs

TREE: Tree = {
    b"": directory(mtime=5),
    b"file": Entry(content=noise(3 * BLOCK), uid=7, gid=8, mtime=9, xattrs=((b"user.x", b"y"), (b"user.z", b""))),
    b"name": Entry(same_as=b"file"),
    b"short": Entry(content=b"short"),
    b"link": Entry("symlink", 0o777, target=b"file"),
    b"below": directory(0o700),
    b"below/text": Entry(content=text(BLOCK + 7)),
}


def read(path: Path, **limits: int) -> Node:
    with path.open("rb") as file:
        return read_tree(file, 0, path.stat().st_size, **limits).root


def listed(root: Node) -> dict[bytes, Node]:
    found, todo = {b"": root}, [(b"", root)]
    while todo:
        above, directory = todo.pop()
        for name, node in directory.children.items():
            path = above + b"/" + name if above else name
            found[path] = node
            if node.kind == "dir":
                todo.append((path, node))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_every_inode_is_read_with_owner_time_attributes_and_links(tmp_path: Path, compression: str) -> None:
    found = listed(read(write_squashfs(tmp_path / "image", RICH, compression=compression)))
    assert found.keys() == RICH.keys()
    for path, entry in expanded(RICH).items():
        node = found[path]
        assert (node.kind, node.mode, node.uid, node.gid, node.mtime) == (
            *(entry.kind, entry.mode, entry.uid, entry.gid, entry.mtime),
        ), path
        assert (node.target, node.device, node.xattrs) == (entry.target, entry.device, tuple(sorted(entry.xattrs)))
        assert (node.data.size if node.data else 0) == len(entry.content)
        assert entry.same_as == b"" or node is found[entry.same_as]


def image_with(path: Path, root: Node) -> Path:
    with path.open("w+b") as file, SquashfsWriter(file, codec=codec("none"), block_size=BLOCK) as writer:
        writer.finish(root, mtime=0)
    return path


def directory_of(**children: Node) -> Node:
    root = Node("dir", 0o755)
    root.children.update({name.encode(): node for name, node in children.items()})
    return root


def a_file(size: int, start: int, word: int, blocks: int = 1) -> Node:
    data = FileData(size, sizes=[word] * blocks)
    data.start = start
    return Node("file", 0o644, data=data)


def copy(source: Path, target: Path) -> None:
    with source.open("rb") as file, target.open("w+b") as new:
        tree = read_tree(file, 0, source.stat().st_size, most_memory=50_000_000)
        with SquashfsWriter(new, codec=copying.same_codec(tree.blocks), block_size=BLOCK) as writer:
            copying.copy_contents(tree.root, tree, writer)
            writer.finish(tree.root, mtime=0)


@pytest.mark.parametrize(
    "file",
    [
        a_file(BLOCK, 1 << 40, BLOCK),
        a_file(BLOCK, (1 << 64) - 5, 100),
        a_file(BLOCK, 0, 1 << 23),
        Node("file", 0o644, data=FileData(10, fragment=7)),
    ],
    ids=["beyond the end", "offset that overflows", "block larger than a block", "fragment that is missing"],
)
def test_an_impossible_block_is_refused(tmp_path: Path, file: Node) -> None:
    image = image_with(tmp_path / "image", directory_of(file=file))
    with pytest.raises(VerificationError, match="damaged"):
        copy(image, tmp_path / "copy")


def test_blocks_that_overlap_are_copied_once(tmp_path: Path) -> None:
    files = {f"f{number}": a_file(BLOCK * 40, 96, BLOCK, blocks=40) for number in range(500)}
    whole = noise(40 * BLOCK)
    with (tmp_path / "image").open("w+b") as file, SquashfsWriter(file, codec=codec("none"), block_size=BLOCK) as new:
        new.add_file(len(whole), [whole])
        new.finish(directory_of(**files), mtime=0)
    copy(tmp_path / "image", tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_size <= (tmp_path / "image").stat().st_size


@pytest.mark.parametrize("itself", [False, True])
def test_a_directory_with_two_parents_or_that_holds_itself_is_refused(tmp_path: Path, itself: bool) -> None:
    image = image_with(tmp_path / "image", directory_of(one=directory_of(), two=directory_of()))
    raw = bytearray(image.read_bytes())
    (root,) = struct.unpack_from("<Q", raw, 32)
    one, two = raw.index(b"one") - 8, raw.index(b"two") - 8
    raw[two : two + 2] = struct.pack("<H", root & 0xFFFF) if itself else raw[one : one + 2]
    image.write_bytes(raw)
    with pytest.raises(VerificationError, match="two places"):
        read(image)


def test_memory_is_limited(tmp_path: Path) -> None:
    image = write_squashfs(tmp_path / "image", {b"": directory(), **{b"%d" % n: Entry() for n in range(500)}})
    with pytest.raises(BadInputError, match="need more than"):
        read(image, most_memory=100_000)


def test_a_file_of_an_exabyte_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    sparse = a_file(3 << 20, 96, 0, blocks=768)
    sparse.data.holes = 3 << 20  # type: ignore[union-attr]
    image = image_with(tmp_path / "image", directory_of(file=sparse))
    raw = bytearray(image.read_bytes())
    at = raw.index(struct.pack("<Q", 3 << 20))
    struct.pack_into("<Q", raw, at, 1 << 60)
    image.write_bytes(raw)
    with pytest.raises(BadInputError, match="need more than"):
        read(image)


@pytest.mark.slow
def test_damage_anywhere_gives_our_errors_alone(tmp_path: Path) -> None:
    whole = write_squashfs(tmp_path / "image", TREE, compression="none").read_bytes()
    changed, chance = tmp_path / "changed", random.Random(7)  # noqa: S311 - the same each time
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(500):
        raw = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            at = chance.randrange(96) if chance.random() < 0.3 else chance.randrange(3 * BLOCK, len(raw))
            raw[at] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        changed.write_bytes(raw)
        try:
            copy(changed, tmp_path / "copy")
        except HpcmodError:
            continue
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # kB
