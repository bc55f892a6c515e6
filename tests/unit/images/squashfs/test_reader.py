from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpcmod.core.errors import NotFoundError, VerificationError
from hpcmod.images.squashfs.reader import Squashfs
from tests.corpus import HAS_MKSQUASHFS, Link, Node, Program, make_squashfs, pack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)"),
]

NOISE = random.Random(1).randbytes(300_000)  # noqa: S311 - does not compress, so its blocks are stored as they are
TEXT = b"".join(b"line %d of a text that compresses well\n" % number for number in range(20_000))
MANY = {f"/many/file-with-a-long-name-{number:05}": str(number) for number in range(3000)}
TREE: dict[str, Node] = {
    "/empty": "",
    "/short": "a few bytes",
    "/block": NOISE[: 128 << 10],
    "/noise": NOISE,
    "/text": TEXT,
    "/hole": b"start" + bytes(1 << 20) + b"end",
    "/a/b/c": Program("#!/bin/sh\nexit 0\n"),
    "/a/up": Link("../short"),
    "/a/absolute": Link("/a/b"),
    "/a/b/circle": Link("/a/b/other"),
    "/a/b/other": Link("circle"),
    "/a/nowhere": Link("/no/such/thing"),
    "/a/over-the-top": Link("../../../../short"),
    "/a/self": Link("."),
    "/hollow/": "",
    "/caf\u00e9 with space": "UTF-8",
}
OPTIONS = [
    pytest.param(("-comp", "gzip"), id="gzip"),
    pytest.param(("-comp", "zstd", "-b", "1M"), id="zstd, large blocks"),
    pytest.param(("-comp", "xz", "-b", "4K"), id="xz, small blocks"),
    pytest.param(("-comp", "xz", "-Xbcj", "x86"), id="xz with a filter"),
    pytest.param(("-noI", "-noD", "-noF", "-noX"), id="nothing compressed"),
    pytest.param(("-no-fragments",), id="no fragments"),
    pytest.param(("-always-use-fragments", "-no-exports"), id="all tails in fragments"),
]

Open = Callable[..., Squashfs]


@pytest.fixture
def open_tree(tmp_path: Path) -> Iterator[Open]:
    """Create a squashfs of a tree at an offset in a file, and open it."""
    files = []

    def make(tree: dict[str, Node], *options: str, offset: int = 0) -> Squashfs:
        body = make_squashfs(tmp_path / "body", tree, *options).read_bytes()
        path = tmp_path / "image"
        path.write_bytes(b"x" * offset + body)
        files.append(path.open("rb"))
        return Squashfs(files[-1], offset, len(body))

    yield make
    for file in files:
        file.close()


@pytest.fixture(scope="module")
def squashfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Squashfs]:
    """A squashfs of TREE, opened once."""
    path = make_squashfs(tmp_path_factory.mktemp("tree") / "body", TREE)
    with path.open("rb") as file:
        yield Squashfs(file, 0, path.stat().st_size)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.slow
def test_reads_back_what_mksquashfs_wrote(open_tree: Open, options: tuple[str, ...]) -> None:
    squashfs = open_tree(TREE, *options, offset=4096)
    for path, node in TREE.items():
        if isinstance(node, (str, bytes)) and not path.endswith("/"):
            expected = node.encode() if isinstance(node, str) else node
            assert squashfs.read_bytes(path, 1 << 30) == expected, path


def test_reads_a_directory_of_thousands(open_tree: Open) -> None:
    squashfs = open_tree(MANY)
    assert squashfs.listdir("/many") == sorted(path.rpartition("/")[2] for path in MANY)
    assert squashfs.read_bytes("/many/file-with-a-long-name-02999", 10) == b"2999"


def test_lists_a_directory_in_the_order_of_its_bytes(squashfs: Squashfs) -> None:
    top = {path.split("/")[1] for path in TREE}
    assert squashfs.listdir("/") == sorted(top, key=os.fsencode)
    assert squashfs.listdir("/hollow") == []
    assert squashfs.listdir("/short") == []
    assert squashfs.listdir("/none") == []


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/", "/"),
        ("", "/"),
        ("//a/./b//c", "/a/b/c"),
        ("/a/up", "/short"),
        ("/a/absolute/c", "/a/b/c"),
        ("/a/over-the-top", "/short"),
        ("/../../short", "/short"),
        ("/a/b/..", "/a"),
        ("/a/self/self/b", "/a/b"),
        ("/a/nowhere", None),
        ("/a/b/circle", None),
        ("/short/x", None),
        ("/none", None),
    ],
)
def test_follows_links_inside_the_image_only(squashfs: Squashfs, path: str, real: str | None) -> None:
    assert squashfs.real_path(path) == real


def test_tells_kinds_and_modes(open_tree: Open) -> None:
    files = ("/disk b 640 0 0 8 1", "/null c 666 0 0 1 3", "/pipe i 600 0 0 f", "/sock i 600 0 0 s")
    pseudo = [word for file in files for word in ("-p", file)]
    squashfs = open_tree({"/f": "", "/x": Program(), "/d/": "", "/l": Link("f")}, *pseudo)
    found = {name: squashfs.find(f"/{name}", follow=False) for name in squashfs.listdir("/")}
    kinds = {name: inode.kind for name, inode in found.items() if inode}
    assert kinds == {
        "d": "dir",
        "disk": "block",
        "f": "file",
        "l": "symlink",
        "null": "char",
        "pipe": "fifo",
        "sock": "socket",
        "x": "file",
    }
    assert [name for name, inode in found.items() if inode and inode.executable] == ["x"]
    assert found["f"] and found["f"].mode == 0o644


def test_a_link_is_seen_itself_unless_followed(squashfs: Squashfs) -> None:
    link, target = squashfs.find("/a/up", follow=False), squashfs.find("/a/up")
    assert link and (link.kind, link.target) == ("symlink", b"../short")
    assert target and (target.kind, target.size) == ("file", 11)


@pytest.mark.parametrize("limit", [0, 1, 100, 131072, 131073, 200_000])
def test_reads_no_more_than_asked(squashfs: Squashfs, limit: int) -> None:
    assert squashfs.read_bytes("/noise", limit) == NOISE[:limit]


@pytest.mark.parametrize("path", ["/none", "/a", "/a/nowhere"])
def test_reading_something_other_than_a_file_is_not_found(squashfs: Squashfs, path: str) -> None:
    with pytest.raises(NotFoundError, match=f"no file {path} in the image"):
        squashfs.read_bytes(path, 10)


def test_reads_files_with_two_names_and_extended_attributes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "one").write_text("shared")
    os.link(root / "one", root / "two")
    (root / "directory").mkdir()
    for name in ("one", "directory"):
        os.setxattr(root / name, "user.comment", b"seen by nobody")
    body = pack(root, tmp_path / "body")
    with body.open("rb") as file:
        squashfs = Squashfs(file, 0, body.stat().st_size)
        assert squashfs.read_bytes("/one", 10) == squashfs.read_bytes("/two", 10) == b"shared"
        assert squashfs.listdir("/directory") == []


def test_an_image_whose_root_is_a_file_is_damaged(tmp_path: Path) -> None:
    path = make_squashfs(tmp_path / "body", {"/a": "text"}, "-noI")
    body = path.read_bytes()
    path.write_bytes(body[:32] + bytes(8) + body[40:])  # the root is the first inode, that of the file
    with path.open("rb") as file, pytest.raises(VerificationError, match="the root is not a directory"):
        Squashfs(file, 0, len(body))
