"""Read the lines of logs by the rules: facts, reasons, problems, and warnings that no rule knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hpcmod.runs.values.endings.ending import Ending, find_ending
from hpcmod.runs.values.logs.rules import REASONS, RULES, Reason

LONGEST = 2000
"""Characters of a line that are read."""

MOST_KEPT = 200
"""Unknown warnings that are kept; all are counted."""

_MOST_VALUES = 1000  # of a field

_OURS = re.compile(
    r"\bN?CCL (?:INFO|WARN|ERROR|version)|\bNET/(?:OFI|IB|Socket|Plugin)\b|libfabric:\S*<|\bUCX +[A-Z]{4,}|\bMPICH\b"
    r"|MPIDI?_|\bmca:|Open MPI|\[c10d|[Gg]loo\b|\[\d+\] (?:\S+:\d+ )?(?:INFO|WARN) "
)
"""Lines of the libraries that the rules are about."""

_WORDS = ("CCL ", "NET", "libfabric:", "UCX", "MPI", "mca:", "[c10d", "loo", "INFO ", "WARN ")
_MARKS = {*_WORDS, *(rule.mark for rule in (*RULES, *(reason.rule for reason in REASONS)))}
"""Texts of which each such line contains one: much faster to find."""

_WARNS = re.compile(r"\bWARN(?:ING)?\b|<warn>|\bERROR\b|\[[WE]\d* ")

_SOURCE_LINE = re.compile(r"[\w./()*, -]{1,300}:\d+")
"""File or function, and line, of NCCL's source."""


@dataclass(frozen=True)
class Seen:
    """A warning or problem in a log."""

    text: str
    file: str
    line: int
    """Number of the line, from 1."""
    ending: Ending | None = None
    """None: a warning that is not known."""


@dataclass
class Reading:
    """What logs say; several can be read one after the other."""

    endings: Sequence[Ending] = ()
    """Known problems to look for."""
    facts: dict[str, dict[str, int]] = field(default_factory=dict)
    """By field and value: the number of lines; `reason` and `problem` have the names of those below."""
    reasons: dict[str, Reason] = field(default_factory=dict)
    """By name, in the order of their first lines."""
    problems: dict[str, Seen] = field(default_factory=dict)
    """First line of each known ending, by its name."""
    unknown: list[Seen] = field(default_factory=list)
    """Warnings that no rule knows, each text once; at most MOST_KEPT."""
    lines: int = 0
    """Lines of the libraries that the rules are about."""
    unread: int = 0
    """Of these, the lines that no rule knows."""
    warnings: int = 0
    """Of the latter, the warnings."""

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of a field, the most frequent first."""
        counts = self.facts.get(name, {})
        return tuple(sorted(counts, key=lambda value: -counts[value]))

    def count(self, name: str, value: str) -> None:
        """Add a line that has a value of a field."""
        counts = self.facts.setdefault(name, {})
        if value in counts or len(counts) < _MOST_VALUES:
            counts[value] = counts.get(value, 0) + 1


def read_log(text: str, into: Reading, *, file: str = "") -> Reading:
    """Read the lines of a log that a rule may be about, and return the reading.

    `into`: The reading to add to; with known endings, all lines are looked at.
    `file`: Name of the log, for people.
    """
    marks = [mark for mark in _MARKS if mark in text]
    for number, line in enumerate(text.split("\n"), 1):
        if into.endings or any(mark in line for mark in marks):
            read_line(into, line, file=file, number=number)
    return into


def read_line(reading: Reading, line: str, *, file: str = "", number: int = 0) -> None:
    """Add one line of a log to a reading."""
    text = line[:LONGEST].rstrip()
    matches = [match for rule in RULES if (match := rule.match(text)) is not None]
    for name, value in (pair for match in matches for pair in match):
        reading.count(name, value)
    reasons = [reason for reason in REASONS if reason.rule.match(text) is not None][:1]
    for reason in reasons:
        reading.count("reason", reason.name)
        reading.reasons.setdefault(reason.name, reason)
    ending = None if any(matches) or reasons else find_ending(text, reading.endings)
    if ending:
        reading.count("problem", ending.name)
        reading.problems.setdefault(ending.name, Seen(_without_rank(text), file, number, ending))
    is_ours = _OURS.search(text) is not None
    is_known = bool(matches or reasons or ending)
    reading.lines += bool(is_ours or matches or reasons)
    if is_ours and not is_known:
        reading.unread += 1
        if _WARNS.search(text):
            reading.warnings += 1
            seen = Seen(_without_rank(text), file, number)
            if len(reading.unknown) < MOST_KEPT and all(seen.text != kept.text for kept in reading.unknown):
                reading.unknown.append(seen)


def _without_rank(line: str) -> str:
    """Return a line without the host, process and time in front, which differ between ranks."""
    for mark in ("NCCL WARN ", "NCCL INFO "):
        before, is_there, after = line.partition(mark)
        if is_there:
            last = (before.split() or [""])[-1]
            return f"{last} {mark}{after}" if _SOURCE_LINE.fullmatch(last) else f"{mark}{after}"
    return re.sub(r"^libfabric:[\d:]+", "", line).strip()
