"""Remember the measured bandwidths of one machine, one JSON object per line, in the user's state directory.

Processes on several nodes may add to the file at once: each holds a lock while it reads the lines and replaces the
file. A line that is not a result is kept, and does not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.fs.ownership import make_private_directory
from hpcmod.core.fs.reading import read_file
from hpcmod.core.fs.tree import write_file
from hpcmod.core.lock import hold
from hpcmod.core.values.json_form import json_form, parse_json
from hpcmod.runs.values.bandwidth.measurement import BandwidthPoint

_LIMIT = 32 << 20  # bytes
_LONGEST = 4096  # bytes of a line
_MOST_LINES = 10_000  # the oldest are dropped
_PATIENCE = 60.0  # seconds to wait for another process that adds to the file


@dataclass(frozen=True)
class MeasuredWith:
    """Where and how bandwidths were measured: only those of one site and method are compared."""

    site: str
    module: str
    image: str
    """sha256; empty: not known."""
    method: str
    """Library and device, e.g. `torch on GPUs`."""


@dataclass(frozen=True)
class _Result:
    """A line of the file."""

    date: str
    measured: MeasuredWith
    point: BandwidthPoint


def history_file(state: Path, site: str) -> Path:
    """Return the file of a machine in the user's state directory."""
    return state / f"bandwidth-{re.sub(r'[^A-Za-z0-9._-]', '-', site)}.jsonl"


def read_earlier_points(
    path: Path, measured: MeasuredWith, *, tell: Callable[[str], None]
) -> tuple[BandwidthPoint, ...]:
    """Return what was measured earlier on this site in the same way, oldest first; nothing if there is no file.

    `tell`: Called with a line for the user if the file cannot be read, or has lines that do not count.
    """
    points: list[BandwidthPoint] = []
    unusable = 0
    try:
        lines = _read_lines(path)
    except OSError as err:
        tell(f"not compared with earlier runs: {path}: {err.strerror}")
        return ()
    for line in lines:
        try:
            result = parse_json(_Result, line, str(path), limit=_LONGEST)
            if (result.measured.site, result.measured.method) == (measured.site, measured.method):
                points.append(result.point)
        except BadInputError:
            unusable += 1
    if unusable:
        tell(f"{path}: {unusable} lines are not results of `hpcmod bench`, and do not count")
    return tuple(points)


def remember_points(
    path: Path, measured: MeasuredWith, points: Sequence[BandwidthPoint], *, date: str, tell: Callable[[str], None]
) -> None:
    """Add points to the file, which is created if it does not exist.

    `date`: Of the measurement, as in JSON.
    `tell`: Called with a line for the user if another process holds the file, or it cannot be read or written.
    """
    new = [json.dumps(json_form(_Result(date, measured, point))).encode() for point in points]
    try:
        make_private_directory(path.parent)
        with hold(path.with_name(f".{path.name}.lock"), limit=_PATIENCE, tell=tell):
            lines = [*_read_lines(path), *new][-_MOST_LINES:]
            write_file(path, b"".join(line + b"\n" for line in lines), mode=0o600)
    except (HpcmodError, OSError) as err:
        reason = err.message if isinstance(err, HpcmodError) else f"{path}: {err.strerror}"
        tell(f"not remembered for later runs: {reason}")


def _read_lines(path: Path) -> list[bytes]:
    try:
        return read_file(path, _LIMIT).splitlines()
    except FileNotFoundError:
        return []
