"""Names of the compressors for SIFs: the one list for profiles, options, and the squashfs reader and writer."""

from __future__ import annotations

import re

NUMBERS = {"zstd": 6, "gzip": 1}
"""By name: the number in the superblock of a squashfs, for each compressor that hpcmod can write."""

NAMES = (*NUMBERS, "none")

ANY_OF = f"{', '.join(NAMES[:-1])} or {NAMES[-1]}"
"""The names, for messages and help texts."""


def reads_zstd(runtime: str) -> bool:
    """Return whether a container runtime starts images with zstd, from what it says of its version.

    SingularityCE (4.3, 2025) and Apptainer before 1.4 do not: pkg/image/squashfs.go of sylabs/singularity@122624af, and
    Apptainer 1.3.6 as it was run.
    """
    version = re.match(r"apptainer version (\d+)\.(\d+)", runtime)
    return version is not None and (int(version[1]), int(version[2])) >= (1, 4)


def is_compression(text: str) -> bool:
    """Return whether a text is NAME or NAME:LEVEL, with a known name and a level of one or two digits."""
    return re.fullmatch(rf"({'|'.join(NAMES)})(:\d{{1,2}})?", text) is not None
