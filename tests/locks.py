"""Locks of processes that have ended."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from hpcmod.core.lock import Holder


def write_dead_lock(path: Path) -> None:
    """Write a lock of a process of this machine that has ended and whose process ID was reused."""
    path.write_text(json.dumps(asdict(replace(Holder.me(), started="long ago"))))
