"""Read the space left by quotas on Lustre, with its tool `lfs`.

Project quotas of Lustre and XFS are included in the free space of the file system.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.errors import LackingError
from hpcmod.core.fs.mounts import find_file_system
from hpcmod.core.process import run

_BLOCK = 1024  # bytes in which `lfs` counts
_TIMEOUT = 5.0  # seconds; a slow server must not delay the work
_LUSTRE = re.compile(r"\s(\d+)\*?\s+(\d+)\s+(\d+)\s+\S+\s+(\d+)\*?\s+(\d+)\s+(\d+)\s")


@dataclass(frozen=True)
class SpaceLeft:
    """The space left on a file system; None where unlimited or unknown."""

    bytes: int | None
    inodes: int | None
    of: str
    """Origin of the limit: `free`, or `left of the user quota`."""


def read_quotas(directory: Path) -> Iterator[SpaceLeft]:
    """Yield what the quotas of this user and group leave on the file system of a directory, if it is Lustre."""
    if find_file_system(directory) != "lustre":
        return
    for name, number in (("user", os.getuid()), ("group", directory.stat().st_gid)):
        try:
            done = run(["lfs", "quota", "-q", f"-{name[0]}", str(number), str(directory)], timeout=_TIMEOUT)
        except LackingError:
            return
        left = parse_lfs(done.stdout) if done.status == 0 else (None, None)
        yield SpaceLeft(*left, f"left of the {name} quota")


def parse_lfs(text: str) -> tuple[int | None, int | None]:
    """Return the bytes and files left by a line of `lfs quota -q`: path, KiB used, quota, limit, grace, files, ..."""
    match = _LUSTRE.search(f"{text} ")
    if match is None:
        return None, None
    used, soft, hard, files, files_soft, files_hard = (int(number) for number in match.groups())
    return _left(used * _BLOCK, soft * _BLOCK, hard * _BLOCK), _left(files, files_soft, files_hard)


def _left(used: int, soft: int, hard: int) -> int | None:
    """Return what a limit leaves; 0 means none."""
    limit = hard or soft
    return max(0, limit - used) if limit else None
