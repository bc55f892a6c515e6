"""Over how many servers Lustre distributes a file, asked and set with its tool `lfs`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from hpcmod.core.errors import LackingError
from hpcmod.core.fs.mounts import find_file_system
from hpcmod.core.process import run

_LUSTRE = "lustre"
_TIMEOUT = 5.0  # seconds; a slow server must not delay the work
_COUNT = re.compile(r"stripe_count:\s+(\d+)")


def set_layout(directory: Path, options: str, tell: Callable[[str], None]) -> None:
    """Choose how Lustre distributes files that will be created in a directory; elsewhere than on Lustre, do nothing.

    Parameters
    ----------
    options
        Options of `lfs setstripe`, separated by blanks; empty: do nothing.
    tell
        Called with the reason if that failed: the files then have the layout of the file system.
    """
    if not options or find_file_system(directory) != _LUSTRE:
        return
    try:
        done = run(["lfs", "setstripe", *options.split(), str(directory)], timeout=_TIMEOUT)
        fault = "" if done.status == 0 else done.stderr.strip() or f"status {done.status}"
    except LackingError as err:
        fault = err.message
    if fault:
        tell(f"the image gets the default layout of Lustre, because lfs setstripe {options} failed: {fault}")


def find_stripes(path: Path) -> int | None:
    """Return over how many servers a file is distributed; None if it is not on Lustre, or that cannot be determined."""
    return count_stripes(path) if path.is_file() and find_file_system(path) == _LUSTRE else None


def count_stripes(path: Path) -> int | None:
    """Return the stripe count of a file on Lustre; None if it cannot be determined."""
    try:
        done = run(["lfs", "getstripe", str(path)], timeout=_TIMEOUT)
    except LackingError:
        return None
    return parse_stripes(done.stdout) if done.status == 0 else None


def parse_stripes(text: str) -> int | None:
    """Parse what `lfs getstripe FILE` prints; of a composite layout, the largest count of a component that is in use.

    The parts of the text are described in lfs-getstripe(1) of Lustre 2.15.
    """
    first, *components = re.split(r"^.*\blcme_id:", text, flags=re.MULTILINE)
    parts = [part for part in components if re.search(r"lcme_flags:\s+\S*\binit\b", part)] if components else [first]
    counts = [int(count) for part in parts for count in _COUNT.findall(part)]
    return max(counts, default=None)
