"""Read the lines of logs by the rules: facts, reasons, problems, and warnings that no rule knows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hpcmod.runs.values.logs import libfabric, mpi, nccl, torch
from hpcmod.runs.values.logs.rule import FACT, Rule

RULES: tuple[Rule, ...] = (*nccl.RULES, *libfabric.RULES, *mpi.RULES, *torch.RULES)

LONGEST = 2000
"""Characters of a line that are read."""

MOST_KEPT = 200
"""Problems and unknown warnings that are kept; all are counted."""

_MOST_VALUES = 1000  # of a field

_OURS = re.compile(
    r"\bN?CCL (?:INFO|WARN|ERROR|version)|\bNET/(?:OFI|IB|Socket|Plugin)\b|libfabric:\S*<|\bUCX +[A-Z]{4,}|\bMPICH\b"
    r"|MPIDI?_|\bmca:|Open MPI|\[c10d|[Gg]loo\b|\[\d+\] (?:\S+:\d+ )?(?:INFO|WARN) "
)
"""Lines of the libraries that the rules are about."""

_MARKS = {rule.mark for rule in RULES if rule.mark} | {
    *("CCL ", "NET", "libfabric:", "UCX", "MPI", "mca:", "[c10d", "loo", "INFO ", "WARN "),
    *("ofi-nccl", "remote peer", "Call to recv", "interface found", "ncclSocketInit", "NCCL error", "Error"),
    *("tcp_endpoint", "cannot be retrieved", "getaddrinfo"),
}
"""Texts of which each such line contains one: much faster to find."""

_WARNS = re.compile(r"\bWARN(?:ING)?\b|<warn>|\bERROR\b|\[[WE]\d* ")


_PLACE = re.compile(r"[\w./()*, -]{1,300}:\d+")
"""File or function, and line, of NCCL's source."""


@dataclass(frozen=True)
class Seen:
    """A line of a log, and the rule that it matched."""

    rule: Rule | None
    """None: a warning that no rule knows."""
    text: str
    file: str
    line: int
    """Number of the line, from 1."""


@dataclass
class Reading:
    """What logs say; several can be read one after the other."""

    facts: dict[str, dict[str, int]] = field(default_factory=dict)
    """By field and value: the number of lines."""
    noted: dict[str, Seen] = field(default_factory=dict)
    """First line of each reason and problem, by the rule's name."""
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
        found = self.facts.get(name, {})
        return tuple(sorted(found, key=lambda value: -found[value]))


def read_log(text: str, *, file: str = "", into: Reading | None = None) -> Reading:
    """Read the lines of a log that a rule may be about.

    Parameters
    ----------
    file
        Name of the log, for people.
    into
        An earlier reading to add to.
    """
    reading = Reading() if into is None else into
    marks = [mark for mark in _MARKS if mark in text]
    for number, line in enumerate(text.split("\n") if marks else (), 1):
        if any(mark in line for mark in marks):
            read_line(reading, line, file=file, number=number)
    return reading


def read_line(reading: Reading, line: str, *, file: str = "", number: int = 0) -> None:
    """Add one line of a log to a reading."""
    text = line[:LONGEST].rstrip()
    known = [(rule, found) for rule in RULES if (found := rule.match(text)) is not None]
    for rule, found in known:
        for name, value in found:
            values = reading.facts.setdefault(name, {})
            if value in values or len(values) < _MOST_VALUES:
                values[value] = values.get(value, 0) + 1
        if rule.kind != FACT:
            reading.noted.setdefault(rule.name, Seen(rule, _without_rank(text), file, number))
    if known or _OURS.search(text):
        reading.lines += 1
    if not known and _OURS.search(text):
        reading.unread += 1
        if _WARNS.search(text):
            reading.warnings += 1
            _keep_unknown(reading, Seen(None, _without_rank(text), file, number))


def _keep_unknown(reading: Reading, seen: Seen) -> None:
    if len(reading.unknown) < MOST_KEPT and all(seen.text != kept.text for kept in reading.unknown):
        reading.unknown.append(seen)


def _without_rank(line: str) -> str:
    """Return a line without the host, process and time in front, which differ between ranks."""
    for mark in ("NCCL WARN ", "NCCL INFO "):
        before, found, after = line.partition(mark)
        if found:
            last = (before.split() or [""])[-1]
            return f"{last} {mark}{after}" if _PLACE.fullmatch(last) else f"{mark}{after}"
    return re.sub(r"^libfabric:[\d:]+", "", line).strip()
