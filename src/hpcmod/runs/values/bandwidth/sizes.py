"""Sizes of messages, as users type them and as people read them; and bandwidths, as people read them."""

from __future__ import annotations

import re

from hpcmod.core.errors import BadInputError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d{1,12})([KMG]?)(?:i?B)?", re.IGNORECASE)
_SMALLEST, _LARGEST = 4, 1 << 40  # bytes: one float; more than the memory of any GPU


def parse_size_range(text: str) -> tuple[int, int]:
    """Return the first and the last size in bytes of `1M-8G` or `8G`; units are powers of 2, as those of nccl-tests.

    Raises BadInputError if it is not a range of sizes.
    """
    first, dash, last = text.partition("-")
    sizes = [_SIZE.fullmatch(word.strip()) for word in (first, last if dash else first)]
    limits = [int(size[1]) * _UNITS[size[2].upper()] for size in sizes if size]
    if len(limits) < 2 or not _SMALLEST <= limits[0] <= limits[1] <= _LARGEST:
        why = "the first is larger than the last" if limits[1:] and limits[0] > limits[1] else "not sizes such as 1M-8G"
        raise BadInputError(f"--sizes {text}: {why}", "Write --sizes FIRST-LAST, e.g. 1K-16M.")
    return limits[0], limits[1]


def format_binary_size(size: int) -> str:
    """Return a size with its binary unit: 8 GiB, 1.5 MiB; `?` for 0, which means not known."""
    if not size:
        return "?"
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"


def format_rate(rate: float) -> str:
    """Return GB/s with two digits after the point, or two that count for slow ones: 158.65, 0.0022."""
    return f"{rate:.2f}" if rate >= 0.1 or not rate else f"{rate:.2g}"
