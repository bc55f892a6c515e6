"""Python tracebacks in the output of a run: the exception, its rank, and the line of the user's own code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcmod.runs.values.endings.origin import ranks_of

_BEGIN = "Traceback (most recent call last):"
_IGNORED = "Exception ignored in"
_LONGEST = 400  # lines of one traceback
_MOST = 2000  # tracebacks of one file
FRAME = re.compile(r'^\s+File "([^"]{1,500})", line (\d{1,9})(?:,? in (.{1,200}))?')
_EXCEPTION = re.compile(r"^(?!srun:|slurmstepd)[A-Za-z_][\w.]{0,200}(?::\s|:?$)")
LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python3", "<frozen ", "<string>")


@dataclass(frozen=True)
class Raised:
    """An exception that a rank printed."""

    line: int
    """Line of the exception, counted from 0."""
    text: str
    """Type and message, first line."""
    ranks: tuple[int, ...]
    place: str
    """File and line of the user's code, e.g. "train.py:41 in load"; empty if all frames are of libraries."""


def find_exceptions(lines: Sequence[str]) -> Iterator[Raised]:
    """Yield the exceptions of tracebacks, in order; those that Python ignores are left out."""
    starts = [number for number, line in enumerate(lines) if _BEGIN in line][:_MOST]
    for start in starts:
        if start and _IGNORED in lines[start - 1]:
            continue
        raised = _read_one(lines, start)
        if raised:
            yield raised
    for number, line in enumerate(lines[1:], 1):  # as the library `rich` prints them, in a box
        if lines[number - 1].startswith("╰─") and _EXCEPTION.match(line):
            yield Raised(number, line.strip()[:500], ranks_of(line), "")


def _read_one(lines: Sequence[str], start: int) -> Raised | None:
    prefix = lines[start][: lines[start].index(_BEGIN)].rpartition("\r")[2]
    frames: list[tuple[str, str, str]] = []
    for number in range(start + 1, min(start + _LONGEST, len(lines))):
        if not lines[number].startswith(prefix):
            continue  # another rank's line in between
        line = lines[number][len(prefix) :]
        frame = FRAME.match(line)
        if frame:
            frames.append((frame[1], frame[2], frame[3] or ""))
        elif frames and _EXCEPTION.match(line):
            ranks = ranks_of(lines[number]) or ranks_of(lines[start])
            return Raised(number, line.strip()[:500], ranks, _place(frames))
        elif _BEGIN in line:
            return None
    return None


def _place(frames: Sequence[tuple[str, str, str]]) -> str:
    """Return the innermost frame that is not of a library."""
    own = [frame for frame in frames if not any(part in frame[0] for part in LIBRARIES)]
    return name_place(*own[-1]) if own else ""


def name_place(file: str, line: str | int, function: str = "") -> str:
    """Return a place in a program, e.g. "train.py:41 in load"."""
    where = f"{file.rpartition('/')[2]}:{line}"
    return where if function in ("", "<module>") else f"{where} in {function}"
