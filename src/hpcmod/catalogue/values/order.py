"""The order of versions."""

from __future__ import annotations

import re


def release_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """Return the key that sorts versions: 1.10 after 1.9, and numbers after words."""
    parts = re.findall(r"\d+|[a-zA-Z]+", version)
    return tuple((1, int(part), "") if part.isdigit() and part.isascii() else (0, 0, part) for part in parts)
