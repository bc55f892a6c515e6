from __future__ import annotations

import sys
import zlib
from typing import Any

import pytest
import zstandard

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.images.squashfs import codecs
from hpcmod.images.squashfs.codecs import codec
from tests.squashfs_trees import noise, text

BLOCKS = [text(100_000), noise(5000), b"x", memoryview(text(9000))[100:8000], bytearray(1000)]


def unpack_zstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(data)


@pytest.mark.parametrize("level", [None, 1, 3, 15, 22])
@pytest.mark.slow
def test_zstd_packs_each_block_of_a_batch_on_its_own(level: int | None) -> None:
    packed = codec("zstd", level).pack(BLOCKS)
    assert [unpack_zstd(bytes(one)) for one in packed] == [bytes(one) for one in BLOCKS]


@pytest.mark.parametrize("level", [None, 1, 9])
def test_gzip_packs_each_block_of_a_batch_on_its_own(level: int | None) -> None:
    packed = codec("gzip", level).pack(BLOCKS)
    assert [zlib.decompress(one) for one in packed] == [bytes(one) for one in BLOCKS]


@pytest.mark.parametrize("level", [None, 1, 9])
def test_gzip_is_packed_by_zlib_without_deflate(level: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with_deflate = codec("gzip", level)
    monkeypatch.setitem(sys.modules, "deflate", None)
    without = codec("gzip", level)
    assert [zlib.decompress(one) for one in without.pack(BLOCKS)] == [bytes(one) for one in BLOCKS]
    assert (without.level, without.number, without.options) == (
        with_deflate.level,
        with_deflate.number,
        with_deflate.options,
    )


@pytest.mark.parametrize("name", ["zstd", "gzip", "none"])
def test_a_single_block_is_packed_like_a_batch_and_nothing_gives_nothing(name: str) -> None:
    one = codec(name)
    assert [one.compress(block) for block in BLOCKS] == [bytes(packed) for packed in one.pack(BLOCKS)]
    assert list(one.pack([])) == []


@pytest.mark.parametrize(("name", "level", "default"), [("zstd", 3, 3), ("gzip", 6, 6), ("none", 0, 0)])
def test_the_level_has_a_default(name: str, level: int, default: int) -> None:
    assert codec(name).level == codec(name, level).level == default


@pytest.mark.parametrize(
    ("name", "level", "options"),
    [
        ("zstd", 3, b"\3\0\0\0"),
        ("zstd", 15, b""),
        ("gzip", 6, b"\6\0\0\0\x0f\0\0\0"),
        ("gzip", 9, b""),
        ("none", 0, b""),
    ],
)
def test_options_are_written_where_readers_need_them(name: str, level: int, options: bytes) -> None:
    assert codec(name, level).options == options


@pytest.mark.parametrize(
    ("name", "level", "words"),
    [
        ("xz", None, "unknown compressor 'xz'\nChoose one of zstd, gzip, none"),
        ("zstd", 0, "zstd has no level 0\nChoose one from 1 to 22"),
        ("zstd", 23, "zstd has no level 23"),
        ("gzip", 0, "gzip has no level 0"),
        ("gzip", 10, "gzip has no level 10"),
        ("none", 1, "none has no level 1\nChoose one from 0 to 0"),
    ],
)
def test_an_unknown_compressor_or_level_is_refused(name: str, level: int | None, words: str) -> None:
    with pytest.raises(BadInputError) as caught:
        codec(name, level)
    assert words in str(caught.value)


def test_reports_a_missing_compressor(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_there(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(codecs.importlib, "import_module", nothing_there)
    with pytest.raises(
        LackingError, match="writing zstd needs the Python package zstandard\npython3 -m pip install zstandard"
    ):
        codec("zstd")
