"""The order of versions."""

from __future__ import annotations

import re


def release_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """Return the key that sorts versions: 1.10 after 1.9, and numbers after words."""
    parts = re.findall(r"\d+|[a-zA-Z]+", version)
    return tuple((1, int(part), "") if part.isdigit() and part.isascii() else (0, 0, part) for part in parts)


def begins_with(version: str, start: str) -> bool:
    """Return whether a version begins with a text, whose last number is complete: 2.13 begins with 2, not with 2.1."""
    return version.startswith(start) and not (start[-1:].isdigit() and version[len(start) :][:1].isdigit())
