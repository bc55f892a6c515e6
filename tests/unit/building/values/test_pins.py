"""The lock file: one line per file, and the lines that a build adds."""

from __future__ import annotations

import pytest

from hpcmod.building.shipped import recipe_lock
from hpcmod.building.values.pins import Pin, find_checksum, merge_pins, new_pins, parse_lock
from hpcmod.core.errors import BadInputError

A, B = "a" * 64, "b" * 64
SOURCE = Pin("source", "libfabric", "2.2.0", A, "https://example.org/libfabric-2.2.0.tar.bz2")
WHEEL = Pin("wheel", "torch", "2.2.2", A, "torch-2.2.2-cp311-x86_64.whl")


def test_a_lock_is_read_as_it_is_written() -> None:
    text = f"# said above\n\n{SOURCE}\n{WHEEL}\n"
    assert parse_lock(text, "lock") == (SOURCE, WHEEL)


@pytest.mark.parametrize(
    "line",
    [
        "source libfabric 2.2.0 abc x",
        f"sauce libfabric 2.2.0 {A} x",
        f"source libfabric {A} x",
        f"source a b {A} c d",
        f"source a b {A.upper()} c",
    ],
)
def test_an_invalid_line_is_reported_with_its_number(line: str) -> None:
    with pytest.raises(BadInputError, match=r"my\.lock:2: expected KIND NAME VERSION SHA256 ORIGIN"):
        parse_lock(f"# first\n{line}\n", "my.lock")


def test_two_checksums_of_one_file_are_a_fault() -> None:
    other = Pin("source", "libfabric", "2.2.0", B, "https://mirror.example.org/libfabric.tar.bz2")
    with pytest.raises(BadInputError, match=r"libfabric 2\.2\.0 has a different checksum in an earlier line"):
        parse_lock(f"{SOURCE}\n{other}\n", "lock")


def test_a_version_has_wheels_of_several_architectures() -> None:
    other = Pin("wheel", "torch", "2.2.2", B, "torch-2.2.2-cp311-aarch64.whl")
    assert parse_lock(f"{WHEEL}\n{other}\n", "lock") == (WHEEL, other)


def test_the_users_own_lock_counts_before_the_shipped_one() -> None:
    own = Pin("source", "libfabric", "2.2.0", B, "x")
    assert find_checksum(merge_pins([own], [SOURCE]), "source", "libfabric", "2.2.0") == B


def test_only_what_no_lock_knows_is_added_and_once() -> None:
    assert new_pins([SOURCE, WHEEL, WHEEL], [SOURCE]) == (WHEEL,)


def test_the_shipped_lock_is_right_and_says_where_its_checksums_are_from() -> None:
    text = recipe_lock()
    assert parse_lock(text, "recipes/lock")
    assert "# source: from" in text
    assert "# wheel: as" in text
