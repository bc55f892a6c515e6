from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.images.cache_entry import CacheEntry, choose, digits_of, is_blob_name

DIGITS = "0123456789abcdef" * 4


def entry(size: int, used: float, *, busy: bool = False) -> CacheEntry:
    return CacheEntry(f"sha256:{DIGITS}", size, used, whole=True, busy=busy)


OLD, NEWER, NEW = entry(10, 100.0), entry(20, 200.0), entry(30, 300.0)


@pytest.mark.parametrize(
    ("oldest", "most", "chosen"),
    [
        pytest.param(None, None, [], id="no limit"),
        pytest.param(150.0, None, [OLD], id="by age"),
        pytest.param(200.0, None, [], id="exactly as old as may be"),
        pytest.param(None, 60, [], id="exactly as much as may be"),
        pytest.param(None, 59, [OLD], id="by size, the longest unused first"),
        pytest.param(None, 49, [OLD, NEWER], id="by size, more than one"),
        pytest.param(150.0, 50, [OLD], id="what goes by age counts for the size"),
        pytest.param(None, 0, [OLD, NEWER, NEW], id="all"),
    ],
)
def test_chooses_blobs_to_remove_by_age_and_size(
    oldest: float | None, most: int | None, chosen: list[CacheEntry]
) -> None:
    assert choose([OLD, NEWER, NEW], now=300.0, oldest=oldest, most=most) == chosen


def test_a_blob_being_fetched_is_kept_and_others_are_removed() -> None:
    busy = entry(10, 100.0, busy=True)
    assert choose([busy, NEWER, NEW], now=1e9, oldest=1.0, most=None) == [NEWER, NEW]
    assert choose([busy, NEWER, NEW], now=300.0, oldest=None, most=40) == [NEWER]


def test_a_blob_is_named_by_the_digits_of_its_digest() -> None:
    assert digits_of(f"sha256:{DIGITS}") == DIGITS


@pytest.mark.parametrize(
    "text",
    [
        *("", DIGITS, f"sha256:{DIGITS[1:]}", f"sha256:{DIGITS}0", f"sha256:{DIGITS.upper()}", f"sha512:{DIGITS}"),
        *(f"sha256:{DIGITS}\n", "sha256:" + "../" * 21 + "x", "sha256:" + "\u0660" * 64),
    ],
)
def test_nothing_else_names_a_file(text: str) -> None:
    with pytest.raises(BadInputError, match="is not a valid digest") as caught:
        digits_of(text)
    assert caught.value.exit_code == 2
    assert "64 lower-case hex digits" in caught.value.cure


def test_only_files_that_are_named_as_blobs_count() -> None:
    names = ("b" * 64, "a" * 64, "a" * 63, "a" * 65, "A" * 64, f"{'a' * 64}.json", "lock")
    assert [name[0] for name in names if is_blob_name(name)] == ["b", "a"]
