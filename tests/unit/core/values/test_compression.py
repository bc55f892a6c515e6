from __future__ import annotations

import pytest

from hpcmod.core.values.compression import ANY_OF, NAMES, NUMBERS, is_compression, reads_zstd
from hpcmod.images.squashfs.codecs import codec


@pytest.mark.parametrize(
    ("text", "valid"),
    [("zstd", True), ("gzip:6", True), ("lz4", False), ("none", True), ("xz", False), ("zstd:", False), ("", False)],
)
def test_a_compression_is_a_name_with_an_optional_level(text: str, valid: bool) -> None:
    assert is_compression(text) == valid


@pytest.mark.parametrize(
    ("runtime", "reads"),
    [
        ("apptainer version 1.4.5", True),
        ("apptainer version 2.0", True),
        ("apptainer version 1.3.6-1.el9", False),
        ("singularity-ce version 4.3.2", False),
        ("singularity version 3.8.7", False),
        ("", False),
    ],
)
def test_only_an_apptainer_of_1_4_or_later_reads_zstd(runtime: str, reads: bool) -> None:
    assert reads_zstd(runtime) == reads


def test_every_name_can_be_written_with_its_number() -> None:
    assert {name: codec(name).number for name in NUMBERS} == NUMBERS
    assert codec(NAMES[-1]).name == "none"


def test_the_names_are_listed_as_words() -> None:
    assert ANY_OF == "zstd, gzip or none"
