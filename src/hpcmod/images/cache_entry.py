"""Entries of the blob cache: their file names, their state, and which to remove."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class CacheEntry:
    """A blob in the cache."""

    digest: str
    size: int
    """Bytes on disk."""
    used: float
    """When it was last fetched or read, in Unix seconds."""
    whole: bool
    """False for a partial blob left by an interrupted fetch."""
    busy: bool
    """Whether a process is fetching it now."""


def choose(entries: list[CacheEntry], *, now: float, oldest: float | None, most: int | None) -> list[CacheEntry]:
    """Choose the entries to remove; `entries` is sorted with the least recently used first."""
    total = sum(entry.size for entry in entries)
    chosen = []
    for entry in entries:
        too_old = oldest is not None and now - entry.used > oldest
        if not entry.busy and (too_old or (most is not None and total > most)):
            chosen.append(entry)
            total -= entry.size
    return chosen


def digits_of(digest: str) -> str:
    """Return the file name of a blob: the validated hex digits of its digest.

    Raises
    ------
    BadInputError
        If it is not a valid digest.
    """
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise BadInputError(
            f"{digest!r} is not a valid digest", "A digest is sha256: followed by 64 lower-case hex digits."
        )
    return match.group(1)


def is_blob_name(name: str) -> bool:
    """Return whether a file name is that of a blob."""
    return _NAME.fullmatch(name) is not None
