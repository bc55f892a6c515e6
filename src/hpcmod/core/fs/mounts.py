"""Find the file system of a path, as the kernel's table of mounts names it."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")


def find_file_system(path: Path) -> str:
    """Return the type of the file system with a path, e.g. `lustre` or `nfs4`; empty if it cannot be found."""
    deepest, kind = "", ""
    try:
        mounts = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    resolved = f"{path.resolve()}/"
    for line in mounts:
        _, mounted, its_kind, *_ = [*line.split(" "), "", "", ""]
        mounted = _decode(mounted)
        if resolved.startswith(f"{mounted.rstrip('/')}/") and len(mounted) >= len(deepest):
            deepest, kind = mounted, its_kind
    return kind


def _decode(text: str) -> str:
    r"""Return a path of the table, in which blanks are written as \040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
