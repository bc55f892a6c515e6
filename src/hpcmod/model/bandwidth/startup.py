"""How long ranks need to start and to read data, one alone and all together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hpcmod.model.bandwidth.measurement import median_of, parse_number, plain_lines

TASK, CONTAINER, IMPORT, READ = "task", "container", "import", "read"
"""What is started: a task of the host; one in the container; Python there, which imports a module; or reads a file."""

_LINE = re.compile(r"read (\d{1,19}) bytes in (\S{1,30}) s$")


@dataclass(frozen=True)
class StartTime:
    """Seconds from the start of a step to its end; medians and extremes of its runs."""

    what: str
    """task, container, import or read."""
    nodes: int
    ranks: int
    runs: int
    seconds: float
    low: float
    high: float
    rate: float
    """Slowest rank's speed of reading in GB/s, median of the runs; 0 for anything else."""


@dataclass(frozen=True)
class TimedStart:
    """One run of one step."""

    what: str
    nodes: int
    ranks: int
    seconds: float
    output: str


def summarize_starts(starts: Iterable[TimedStart]) -> tuple[StartTime, ...]:
    """Return the times by what was started and the number of ranks, in the order of the first runs."""
    groups: dict[tuple[str, int, int], list[TimedStart]] = {}
    for one in starts:
        groups.setdefault((one.what, one.nodes, one.ranks), []).append(one)
    return tuple(_join(*key, group) for key, group in groups.items())


def _join(what: str, nodes: int, ranks: int, group: list[TimedStart]) -> StartTime:
    seconds = [one.seconds for one in group]
    rates = [slowest for one in group if (slowest := _slowest_rate(one.output))]
    return StartTime(
        *(what, nodes, ranks, len(group), median_of(seconds), min(seconds), max(seconds)),
        rate=median_of(rates) if rates else 0.0,
    )


def _slowest_rate(output: str) -> float:
    """Return the speed of the slowest rank in GB/s; 0 if none has read."""
    rates = []
    for line in plain_lines(output):
        match = _LINE.match(line.strip())
        seconds = parse_number(match[2]) if match else None
        if match and seconds:
            rates.append(int(match[1]) / seconds / 1e9)
    return min(rates, default=0.0)
