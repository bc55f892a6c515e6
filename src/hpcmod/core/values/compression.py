"""Names of the compressors for SIFs: the one list for profiles, options, and the squashfs reader and writer."""

from __future__ import annotations

import re

NUMBERS = {"zstd": 6, "gzip": 1}
"""By name: the number in the superblock of a squashfs, for each compressor that hpcmod can write."""

NAMES = (*NUMBERS, "none")

ANY_OF = f"{', '.join(NAMES[:-1])} or {NAMES[-1]}"
"""The names, for messages and help texts."""


def is_compression(text: str) -> bool:
    """Return whether a text is NAME or NAME:LEVEL, with a known name and a level of one or two digits."""
    return re.fullmatch(rf"({'|'.join(NAMES)})(:\d{{1,2}})?", text) is not None
