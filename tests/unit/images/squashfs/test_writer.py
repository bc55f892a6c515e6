from __future__ import annotations

import io
import os
import struct
import threading
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.images.squashfs.codecs import Codec, codec
from hpcmod.images.squashfs.data import BlockStream
from hpcmod.images.squashfs.reader import Squashfs
from hpcmod.images.squashfs.tree import Node
from hpcmod.images.squashfs.writer import SquashfsWriter
from tests.squashfs_trees import BLOCK, RICH, Entry, Tree, directory, expanded, noise, text, write_squashfs

pytestmark = pytest.mark.slow

SUPERBLOCK = struct.Struct("<IIIIIHHHHHHQQQQQQQQ")


def superblock(path: Path) -> tuple[int, ...]:
    return SUPERBLOCK.unpack(path.read_bytes()[: SUPERBLOCK.size])


def write(path: Path, root: Node) -> None:
    with path.open("w+b") as file, SquashfsWriter(file, codec=codec("none")) as writer:
        writer.finish(root, mtime=0)


def root_with(name: bytes, node: Node) -> Node:
    root = Node("dir", 0o755)
    root.children[name] = node
    return root


def owned(kind: str = "file", *, uid: int = 0, gid: int = 0, device: tuple[int, int] = (0, 0)) -> Node:
    node = Node(kind, 0o600)
    node.uid, node.gid, node.device = uid, gid, device
    return node


@pytest.mark.parametrize("compression", ["zstd", "gzip", "none"])
@pytest.mark.parametrize("offset", [0, 4096])
def test_our_own_reader_reads_every_file_back(tmp_path: Path, compression: str, offset: int) -> None:
    image = write_squashfs(tmp_path / "image", RICH, compression=compression, offset=offset)
    with image.open("rb") as file:
        squashfs = Squashfs(file, offset, image.stat().st_size - offset)
        for path, entry in expanded(RICH).items():
            name = os.fsdecode(b"/" + path)
            if entry.kind == "file":
                assert squashfs.read_bytes(name, 1 << 30) == entry.content, name
        assert len(squashfs.listdir("/many")) == 2500


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
@pytest.mark.parametrize("threads", [1, 4])
def test_the_same_tree_gives_the_same_bytes_however_it_is_handed_over(
    tmp_path: Path, compression: str, threads: int
) -> None:
    one = write_squashfs(tmp_path / "one", RICH, compression=compression, threads=threads, chunk=13)
    other = write_squashfs(tmp_path / "other", RICH, compression=compression, threads=2, chunk=1 << 20)
    assert one.read_bytes() == other.read_bytes()


def test_the_image_ends_at_a_multiple_of_4096_without_old_data(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with path.open("w+b") as file:
        file.write(b"o" * 1_000_000)
        file.seek(5)
        with SquashfsWriter(file, codec=codec("zstd")) as writer:
            used = writer.finish(Node("dir", 0o755), mtime=0)
        assert file.tell() == 5 + used
    assert used == 4096
    assert path.stat().st_size == 5 + used


@pytest.mark.parametrize(
    ("seconds", "stored"), [(-5, 0), (0, 0), (1_700_000_000, 1_700_000_000), (1 << 40, 0xFFFFFFFF)]
)
def test_a_time_out_of_range_becomes_the_nearest_in_it(tmp_path: Path, seconds: int, stored: int) -> None:
    path = tmp_path / "image"
    with path.open("w+b") as file, SquashfsWriter(file, codec=codec("none")) as writer:
        writer.finish(Node("dir", 0o755, mtime=seconds), mtime=seconds)
    assert superblock(path)[2] == stored
    assert struct.unpack_from("<HHHHI", path.read_bytes(), 96 + 2)[4] == stored


TWICE = [
    pytest.param(text(100), id="short"),
    pytest.param(noise(BLOCK - 1), id="a byte less than a block"),
    pytest.param(noise(BLOCK), id="a block"),
    pytest.param(noise(100 * BLOCK + 1), id="many blocks"),
    pytest.param(noise(BLOCK) + bytes(4 * BLOCK) + noise(9), id="with holes"),
    pytest.param(noise(1_500_000), id="longer than what is compared in one go"),
]


@pytest.mark.parametrize("content", TWICE)
def test_equal_content_is_stored_once(tmp_path: Path, content: bytes) -> None:
    tail = Entry(content=noise(3 * BLOCK, 7))
    once: Tree = {b"": directory(), b"a": Entry(content=content), b"z": tail}
    thrice: Tree = {**once, b"b": Entry(content=content), b"c": Entry(content=content)}
    image = tmp_path / "image"
    ends = [superblock(write_squashfs(image, tree, compression="none"))[15] for tree in (once, thrice)]
    assert ends[0] == ends[1]  # the end of the data, where the inode table starts
    with image.open("rb") as file:
        squashfs = Squashfs(file, 0, image.stat().st_size)
        assert [squashfs.read_bytes(name, 1 << 30) for name in "abcz"] == [content] * 3 + [tail.content]


def test_distinguishes_files_that_only_look_alike_at_bounded_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    read = BlockStream._read
    monkeypatch.setattr(BlockStream, "_read", lambda *args: reads.append(args) or read(*args))
    same_ends = noise(BLOCK)
    contents = [noise(8, seed) + noise(BLOCK)[8:] + same_ends for seed in range(200)]
    contents += [noise(2 * BLOCK, seed) for seed in range(1000, 1200)]
    few = [noise(300 * BLOCK, seed) for seed in range(4)]
    for files in ([*few, few[0][:-1] + b"?"], contents):
        reads.clear()
        tree = {b"": directory(), **{b"%d" % number: Entry(content=content) for number, content in enumerate(files)}}
        image = write_squashfs(tmp_path / "image", tree)
        assert len(files) == 5 or 2 * 196 <= len(reads) <= 2 * 4 * 200
        with image.open("rb") as file:
            squashfs = Squashfs(file, 0, image.stat().st_size)
            assert [squashfs.read_bytes(str(number), 1 << 30) for number in range(len(files))] == files


def test_a_hole_needs_no_space_and_incompressible_blocks_are_stored_uncompressed(tmp_path: Path) -> None:
    for content in (bytes(1 << 24), noise(1 << 20)):
        image = write_squashfs(tmp_path / "image", {b"": directory(), b"file": Entry(content=content)})
        assert image.stat().st_size == 4096 or content in image.read_bytes()


@pytest.mark.parametrize("size", [0, 1, 99, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
@pytest.mark.parametrize("wrong", [-1, 1, BLOCK])
def test_content_of_another_length_than_promised_is_refused(size: int, wrong: int) -> None:
    with SquashfsWriter(io.BytesIO(), codec=codec("none"), block_size=BLOCK) as writer:
        found = max(0, size + wrong)
        if found == size:
            return
        more = "more" if found > size else f"only {found}"
        with pytest.raises(VerificationError, match=f"a file of {size} bytes has {more}"):
            writer.add_file(size, iter([bytes(found)]))


def test_an_error_in_the_compressor_is_raised_and_no_thread_remains(tmp_path: Path) -> None:
    def fail(blocks: object) -> list[bytes]:
        raise ValueError("out of order")

    broken = Codec("none", 0, 1, b"", fail)
    before = threading.active_count()
    with (
        (tmp_path / "image").open("w+b") as file,
        pytest.raises(ValueError, match="out of order"),
        SquashfsWriter(file, codec=broken, threads=2) as writer,
    ):
        for _ in range(100):
            writer.add_file(1 << 20, [b"x" * (1 << 20)])
    assert threading.active_count() == before


def test_reads_ahead_only_a_limited_amount(tmp_path: Path) -> None:
    block = noise(1 << 20)
    path = tmp_path / "image"
    with path.open("w+b") as file, SquashfsWriter(file, codec=codec("none"), threads=2) as writer:
        ahead = []
        for number in range(100):
            writer.add_file(1 << 20, [number.to_bytes(4, "big") + block[4:]])
            ahead.append((number + 1 << 20) - file.tell())
    assert max(ahead) < 16 << 20


@pytest.mark.parametrize("size", [0, 1000, 5000, 2048, 2 << 20, -4096])
def test_an_unsupported_block_size_is_refused(size: int) -> None:
    with pytest.raises(BadInputError, match=f"block size {size}: expected a power of two"):
        SquashfsWriter(io.BytesIO(), codec=codec("none"), block_size=size)


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b", b"/", b"a\0b", b"n" * 256])
def test_a_name_that_linux_does_not_allow_is_refused(tmp_path: Path, name: bytes) -> None:
    with pytest.raises(BadInputError, match="a file named"):
        write(tmp_path / "image", root_with(name, Node("file", 0o644)))


@pytest.mark.parametrize(
    ("node", "words"),
    [
        pytest.param(Node("symlink", 0o777), "a symlink to b'' ", id="no target"),
        pytest.param(Node("symlink", 0o777, target=b"t" * 4096), "4096 bytes", id="long target"),
        pytest.param(Node("symlink", 0o777, target=b"a\0b"), "without NUL", id="NUL in target"),
        pytest.param(owned("block", device=(4096, 0)), "device 4096:0", id="high major"),
        pytest.param(owned("char", device=(0, 1 << 20)), "device 0:1048576", id="high minor"),
        pytest.param(owned("char", device=(-1, 0)), "device -1:0", id="negative major"),
        pytest.param(owned(uid=1 << 32), "user or group 4294967296", id="high user"),
        pytest.param(owned(gid=-1), "user or group -1", id="negative group"),
        pytest.param(Node("door", 0o600), "unsupported kind of file 'door'", id="unknown kind"),
        pytest.param(
            Node("file", 0o600, xattrs=((b"user." + b"n" * 251, b""),)), "an extended attribute", id="xattr name"
        ),
        pytest.param(Node("dir", 0o755, xattrs=((b"user.", b"1"),)), "an extended attribute", id="xattr without name"),
        pytest.param(Node("dir", 0o755, xattrs=((b"system.x", b"1"),)), "an extended attribute", id="system's xattr"),
        pytest.param(Node("file", 0o600, xattrs=((b"user.x", bytes(65537)),)), "65537 bytes", id="xattr value"),
        pytest.param(Node("file", 0o600, xattrs=((b"user.a\0b", b""),)), "an extended attribute", id="NUL in xattr"),
    ],
)
def test_refuses_files_that_a_squashfs_cannot_contain(tmp_path: Path, node: Node, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        write(tmp_path / "image", root_with(b"x", node))


def test_a_root_that_is_not_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="the root of an image is a file"):
        write(tmp_path / "image", Node("file", 0o644))


@pytest.mark.parametrize("circle", [False, True])
def test_a_directory_with_two_names_is_refused(tmp_path: Path, circle: bool) -> None:
    root = root_with(b"a", Node("dir", 0o755))
    (root.children[b"a"] if circle else root).children[b"b"] = root if circle else root.children[b"a"]
    with pytest.raises(BadInputError, match="the directory b'b' has a second name"):
        write(tmp_path / "image", root)


def test_no_more_owners_than_the_superblock_can_count_are_written(tmp_path: Path) -> None:
    root = Node("dir", 0o755)
    for identity in range(1, 65534, 2):
        root.children[b"%d" % identity] = owned(uid=identity, gid=identity + 1)
    write(tmp_path / "image", root)
    assert superblock(tmp_path / "image")[8] == 65535
    root.children[b"one more"] = owned(uid=65535, gid=65535)
    with pytest.raises(BadInputError, match="more than 65535 different users and groups"):
        write(tmp_path / "image", root)


def test_a_tree_deeper_than_python_recurses_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with path.open("w+b") as file, SquashfsWriter(file, codec=codec("zstd")) as writer:
        root = node = Node("dir", 0o755)
        for _ in range(5000):
            node.children[b"d"] = node = Node("dir", 0o755)
        node.children[b"f"] = Node("file", 0o644, data=writer.add_file(4, [b"deep"]))
        writer.finish(root, mtime=0)
        assert Squashfs(file, 0, file.tell()).read_bytes("/d" * 5000 + "/f", 9) == b"deep"


def test_a_hard_link_is_found_from_a_directory_far_away(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with path.open("w+b") as file, SquashfsWriter(file, codec=codec("zstd")) as writer:
        root = root_with(b"many", Node("dir", 0o755))
        first = root.children[b"a"] = Node("file", 0o644, data=writer.add_file(5, [b"first"]))
        many = root.children[b"many"].children
        many.update({b"%05d" % number: Node("fifo", 0o644) for number in range(40_000)})  # > 32767, the limit of a step
        many[b"39999-link"] = first
        last = root.children[b"z"] = Node("dir", 0o755)
        last.children[b"link"] = first
        last.children[b"other"] = many[b"39999"]
        writer.finish(root, mtime=0)
        squashfs = Squashfs(file, 0, file.tell())
        assert [squashfs.read_bytes(name, 9) for name in ("/a", "/many/39999-link", "/z/link")] == [b"first"] * 3
        other = squashfs.find("/z/other")
        assert other and other.kind == "fifo"
        assert len(squashfs.listdir("/many")) == 40_001


def test_files_after_4_gib_and_longer_than_that_are_read_back(tmp_path: Path) -> None:
    size = (5 << 30) + 1
    zeros = bytes(1 << 20)
    path = tmp_path / "image"
    with path.open("w+b") as file, SquashfsWriter(file, codec=codec("zstd"), block_size=1 << 20) as writer:
        root = Node("dir", 0o755)
        writer._stream.at += 5 << 30  # as if this much had been written
        file.seek(5 << 30, io.SEEK_CUR)
        pieces = (zeros if number < 5 << 10 else b"x" for number in range((5 << 10) + 1))
        root.children[b"holes"] = Node("file", 0o644, data=writer.add_file(size, pieces))
        root.children[b"far"] = Node("file", 0o644, data=writer.add_file(2 << 20, [noise(2 << 20)]))
        writer.finish(root, mtime=0)
        squashfs = Squashfs(file, 0, file.tell())
        assert squashfs.read_bytes("/far", 1 << 30) == noise(2 << 20)
        holes = squashfs.find("/holes")
        assert holes and holes.size == size
        assert holes.start > 5 << 30
