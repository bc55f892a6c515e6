"""Copy renewed golden files from the worker's copy back into root's checkout: copy_golden.py COPY CHECKOUT SINCE.

SINCE is in seconds since 1970: an older file was not renewed, and may have been edited in the checkout meanwhile.
Copies only regular files below docs/ and tests/, and follows no link.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("docs", "tests")


def read_renewed(path: Path, since: float) -> bytes | None:
    """Return the content of a regular file that was written after a time; None for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        return file.read() if stat.S_ISREG(status.st_mode) and status.st_mtime >= since else None


def renewed_files(copy: Path, checkout: Path, since: float) -> Iterator[tuple[Path, bytes]]:
    """Yield the path in the checkout and the new content of each renewed file that differs."""
    for folder in FOLDERS:
        for top, folders, names in os.walk(copy / folder):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                content = read_renewed(Path(top, name), since)
                target = checkout / Path(top, name).relative_to(copy)
                if content is not None and (not target.is_file() or target.read_bytes() != content):
                    yield target, content


def main() -> None:
    """Update the golden files of CHECKOUT from COPY."""
    copy, checkout, since = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    for target, content in renewed_files(copy, checkout, since):
        target.parent.mkdir(parents=True, exist_ok=True)
        is_new = not target.exists()
        target.write_bytes(content)
        if is_new:
            owner = checkout.stat()
            os.chown(target, owner.st_uid, owner.st_gid)


if __name__ == "__main__":
    main()
