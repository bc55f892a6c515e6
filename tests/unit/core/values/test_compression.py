from __future__ import annotations

import pytest

from hpcmod.core.values.compression import ANY_OF, NAMES, NUMBERS, is_compression
from hpcmod.images.squashfs.codecs import codec


@pytest.mark.parametrize(
    ("text", "valid"),
    [("zstd", True), ("gzip:6", True), ("lz4", False), ("none", True), ("xz", False), ("zstd:", False), ("", False)],
)
def test_a_compression_is_a_name_with_an_optional_level(text: str, valid: bool) -> None:
    assert is_compression(text) == valid


def test_every_name_can_be_written_with_its_number() -> None:
    assert {name: codec(name).number for name in NUMBERS} == NUMBERS
    assert codec(NAMES[-1]).name == "none"


def test_the_names_are_listed_as_words() -> None:
    assert ANY_OF == "zstd, gzip or none"
