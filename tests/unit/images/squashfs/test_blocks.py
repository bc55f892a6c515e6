from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, LackingError, VerificationError
from hpcmod.images.squashfs.blocks import Blocks, Cursor
from hpcmod.images.squashfs.reader import OpenedFile, Squashfs
from tests.corpus import HAS_MKSQUASHFS, Node, make_squashfs

NEEDS_MKSQUASHFS = pytest.mark.skipif(not HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")
TREE: dict[str, Node] = {"/text": "a text that compresses well\n" * 2000}
STORED_BLOCK = 1 << 24
BLOCK = 4096
OFFSET = 10  # start of the squashfs in its file
HEAD = 96

Open = Callable[..., Blocks]


def superblock(used: int, *, block_size: int = BLOCK, log: int = 12, fragments: int = 0, table: int = 0) -> bytes:
    places = (0, used, 0, 0, 0, 0, table, 0)
    return struct.pack("<IIIIIHHHHHHQQQQQQQQ", 0x73717368, 0, 0, block_size, fragments, 1, log, 0, 0, 4, 0, *places)


def metadata(data: bytes) -> bytes:
    return struct.pack("<H", 0x8000 | len(data)) + data


@pytest.fixture
def open_blocks(tmp_path: Path) -> Iterator[Open]:
    """Write a matching superblock and the given bytes, and open them."""
    files = []

    def make(body: bytes, **fields: int) -> Blocks:
        path = tmp_path / "image"
        path.write_bytes(bytes(OFFSET) + superblock(HEAD + len(body), **fields) + body)
        files.append(path.open("rb"))
        return Blocks(files[-1], OFFSET, HEAD + len(body))

    yield make
    for file in files:
        file.close()


def test_reports_the_values_of_the_superblock(open_blocks: Open) -> None:
    found = open_blocks(b"xyz", fragments=7, table=50).superblock
    assert (found.size, found.block_size, found.codec) == (HEAD + 3, BLOCK, 1)
    assert (found.fragments, found.fragments_at) == (7, 50)


@pytest.mark.parametrize(("size", "log"), [(BLOCK, 13), (2048, 11), (2 << 20, 21), (0, 65535)])
def test_an_impossible_block_size_is_damage(open_blocks: Open, size: int, log: int) -> None:
    with pytest.raises(VerificationError, match=f"near byte {OFFSET}: block size {size}"):
        open_blocks(b"", block_size=size, log=log)


def test_takes_bytes_across_metadata_blocks(open_blocks: Open) -> None:
    blocks = open_blocks(metadata(b"abc") + metadata(b"d") + metadata(b"efg"))
    cursor = Cursor(blocks, HEAD, 1)
    assert [cursor.take(1), cursor.take(4), cursor.take(0), cursor.take(1)] == [b"b", b"cdef", b"", b"g"]
    assert Cursor(blocks, HEAD, 4).take(2) == b"ef", "an offset past its block continues in the next"


@pytest.mark.parametrize(
    ("body", "match"),
    [
        pytest.param(metadata(b""), "a metadata block of 0 bytes", id="empty"),
        pytest.param(struct.pack("<H", 8193), "a metadata block of 8193 bytes", id="too long"),
        pytest.param(metadata(b"abc"), "2 bytes expected there", id="nothing follows"),
        pytest.param(metadata(b"abc")[:-1], "3 bytes expected there", id="cut"),
        pytest.param(struct.pack("<H", 3) + b"abc", f"near byte {OFFSET + HEAD}: Error", id="does not unpack"),
    ],
)
def test_damaged_metadata_is_reported_with_its_place(open_blocks: Open, body: bytes, match: str) -> None:
    with pytest.raises(VerificationError, match=match) as caught:
        Cursor(open_blocks(body), HEAD, 0).take(4)
    assert "sha256" in caught.value.cure


def test_gives_blocks_and_holes_of_a_file(open_blocks: Open) -> None:
    stored = b"x" * BLOCK
    sizes = struct.pack("<III", STORED_BLOCK | BLOCK, 0, STORED_BLOCK | 5)
    blocks = open_blocks(stored + b"short" + metadata(sizes))
    size = 2 * BLOCK + 5
    opened = OpenedFile(blocks, HEAD, size, Cursor(blocks, HEAD + BLOCK + 5, 0), (0, 0, 0))
    assert opened.read(0, size + 1) == stored + bytes(BLOCK) + b"short"
    assert opened.read(2 * BLOCK - 1, 3) == b"\0sh"


@pytest.mark.parametrize(
    ("word", "match"),
    [
        (STORED_BLOCK | 4, "a block of 4 bytes, expected 5"),
        (STORED_BLOCK | (BLOCK + 1), "a block of 4097 packed bytes"),
        (STORED_BLOCK | 1000, "1000 bytes expected there"),
    ],
)
def test_a_block_of_another_size_is_damage(open_blocks: Open, word: int, match: str) -> None:
    with pytest.raises(VerificationError, match=match):
        open_blocks(b"short").block(HEAD, word, 5)


def test_gives_the_tail_of_a_file_from_its_fragment(open_blocks: Open) -> None:
    record = metadata(struct.pack("<QII", HEAD, STORED_BLOCK | 9, 0))
    places = struct.pack("<Q", HEAD + 9)
    blocks = open_blocks(b"one,three" + record + places, fragments=1, table=HEAD + 9 + len(record))
    assert (blocks.tail(0, 0, 3), blocks.tail(0, 4, 5)) == (b"one", b"three")
    with pytest.raises(VerificationError, match="fragment 0 ends within a file"):
        blocks.tail(0, 4, 6)
    with pytest.raises(VerificationError, match="fragment 1 of 1"):
        blocks.tail(1, 0, 1)


def test_refuses_a_file_that_is_not_a_squashfs(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(bytes(200))
    with path.open("rb") as file, pytest.raises(BadInputError, match="no squashfs"):
        Blocks(file, 0, 200)


@NEEDS_MKSQUASHFS
@pytest.mark.parametrize("name", ["lzo", "lz4"])
def test_names_the_cure_for_a_compressor_it_lacks(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(module: str) -> None:
        raise ImportError(f"No module named {module}", name=module)

    path = make_squashfs(tmp_path / "body", TREE, "-comp", name)
    monkeypatch.setattr(importlib, "import_module", refuse)
    with path.open("rb") as file, pytest.raises(LackingError, match=f"compressed with {name}") as caught:
        Blocks(file, 0, path.stat().st_size)
    assert "apptainer build" in caught.value.cure
    assert ("pip install lz4" in caught.value.cure) == (name == "lz4")


def test_a_wrong_file_size_is_reported_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(superblock(200) + bytes(104))
    with path.open("rb") as file:
        assert Blocks(file, 0, 200).superblock.size == 200
        with pytest.raises(VerificationError, match="damaged near byte 0: block size 4096, 200 bytes used of 199"):
            Blocks(file, 0, 199)
        with pytest.raises(VerificationError, match="damaged near byte 0: 96 bytes expected there, it has 10"):
            Blocks(file, 0, 10)


@NEEDS_MKSQUASHFS
def test_zstd_that_claims_a_huge_size_is_not_believed(tmp_path: Path) -> None:
    path = make_squashfs(tmp_path / "body", TREE, "-comp", "zstd")
    body = bytearray(path.read_bytes())
    frame = body.index(b"\x28\xb5\x2f\xfd", 96)
    body[frame + 4 : frame + 13] = b"\xe0" + (1 << 40).to_bytes(8, "little")
    path.write_bytes(body)
    with path.open("rb") as file, pytest.raises(VerificationError):
        Squashfs(file, 0, len(body)).read_bytes("/text", 1 << 30)
