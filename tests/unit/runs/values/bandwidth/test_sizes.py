"""Parsing sizes that users type, and formatting them."""

from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.runs.values.bandwidth.sizes import format_binary_size, format_rate, parse_size_range


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("1M-8G", (1 << 20, 8 << 30)), ("8G", (8 << 30, 8 << 30)), ("4-1k", (4, 1024)), ("1KiB-1MiB", (1 << 10, 1 << 20))],
)
def test_a_range_has_binary_units(text: str, sizes: tuple[int, int]) -> None:
    assert parse_size_range(text) == sizes


@pytest.mark.parametrize("text", ["", "x", "8G-1M", "0", "1-", "-1M", "1T", "1M-2M-3M", "9999G"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="--sizes"):
        parse_size_range(text)


@pytest.mark.parametrize(
    ("size", "text"), [(8 << 30, "8 GiB"), (1536, "1.5 KiB"), (4 * 10**9, "3.725 GiB"), (8, "8 B"), (0, "?")]
)
def test_sizes_are_shown_with_the_unit_that_fits(size: int, text: str) -> None:
    assert format_binary_size(size) == text


@pytest.mark.parametrize(("rate", "text"), [(158.651, "158.65"), (0.1, "0.10"), (0.0021783, "0.0022"), (0, "0.00")])
def test_slow_bandwidths_keep_the_digits_that_count(rate: float, text: str) -> None:
    assert format_rate(rate) == text
