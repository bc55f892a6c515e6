from __future__ import annotations

import random
from pathlib import Path

import pytest

from hpcmod.core.errors import VerificationError
from hpcmod.images.squashfs.reader import Squashfs
from tests.squashfs_trees import BLOCK, RICH, Entry, directory, noise, text, write_squashfs

FILES = [path.decode(errors="surrogateescape") for path, entry in RICH.items() if entry.content]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_squashfs(tmp_path_factory.mktemp("rich") / "image", RICH)


@pytest.mark.slow
def test_any_place_of_a_file_reads_as_the_whole_does(image: Path) -> None:
    dice = random.Random(1)  # noqa: S311
    with image.open("rb") as file:
        squashfs = Squashfs(file, 0, image.stat().st_size)
        for path in FILES:
            opened = squashfs.open_file(path)
            assert opened is not None, path
            whole = squashfs.read_bytes(path, 1 << 30)
            assert opened.size == len(whole)
            assert opened.read(0, opened.size + 9) == whole
            for _ in range(5):
                offset, length = dice.randint(0, len(whole) + 5), dice.randint(0, 3 * BLOCK)
                assert opened.read(offset, length) == whole[offset : offset + length], (path, offset, length)
        assert [squashfs.open_file(path) for path in ("/none", "/hollow", "/device/fifo")] == [None] * 3


def test_only_the_blocks_that_are_asked_for_are_unpacked(tmp_path: Path) -> None:
    """The previous block is damaged, which causes no error."""
    path = write_squashfs(
        tmp_path / "image", {b"": directory(), b"x": Entry(content=text(4 * BLOCK) + noise(100))}, compression="zstd"
    )
    with path.open("rb") as file:
        opened = Squashfs(file, 0, path.stat().st_size).open_file("/x")
        assert opened is not None
        at = opened._places[1][0]
    data = bytearray(path.read_bytes())
    data[at : at + 8] = bytes(8)
    path.write_bytes(data)
    with path.open("rb") as file:
        opened = Squashfs(file, 0, path.stat().st_size).open_file("/x")
        assert opened is not None
        assert opened.read(2 * BLOCK, 100) == text(4 * BLOCK)[2 * BLOCK :][:100]
        with pytest.raises(VerificationError):
            opened.read(BLOCK, 1)


def test_a_size_that_no_file_has_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_squashfs(
        tmp_path / "image", {b"": directory(), b"x": Entry(content=noise(3 * BLOCK))}, compression="none"
    )
    with path.open("rb") as file:
        squashfs = Squashfs(file, 0, path.stat().st_size)
        inode = squashfs.find("/x")
        assert inode is not None
        inode.size = 1 << 60
        monkeypatch.setattr(squashfs, "find", lambda path: inode)
        with pytest.raises(VerificationError):
            squashfs.open_file("/x")
