"""Over how many servers Lustre has distributed a file, as its tool `lfs` says."""

from __future__ import annotations

import re
from pathlib import Path

from hpcmod.errors import LackingError
from hpcmod.process import run

_TIMEOUT = 5.0  # seconds; a slow server must not delay the work
_COUNT = re.compile(r"stripe_count:\s+(\d+)")


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
