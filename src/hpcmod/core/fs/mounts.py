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
        mounted = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), mounted)  # a blank is \040 there
        if resolved.startswith(f"{mounted.rstrip('/')}/") and len(mounted) >= len(deepest):
            deepest, kind = mounted, its_kind
    return kind
