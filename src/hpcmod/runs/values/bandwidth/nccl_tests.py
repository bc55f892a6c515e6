"""Read the tables that nccl-tests and rccl-tests print, of every release.

A row has size, count, type and, depending on the release, redop and root; then time, algbw, busbw and #wrong of the
out-of-place and of the in-place run. Before 2.13, #wrong was `error`, a deviation and no count; with -c 0 it is N/A.
-I adds four columns to each half, -C calls the time cputime, -S appends a timestamp. The header has as many words as
the rows, except that a blank redop or root leaves none (src/util.cu and src/all_gather.cu of nccl-tests).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from hpcmod.core.values.finding import FAIL, UNKNOWN, Finding
from hpcmod.runs.values.bandwidth.measurement import PROGRAMS, WRONG, Measurement

_HALF = ("time", "algbw", "busbw", "#wrong")
_HEAD = re.compile(r"#?\s*size\s+count\s+type\b")
_ROW = re.compile(r"\s*(\d{1,19})\s+(\d{1,19})\s+[a-z]\w{2,15}\s")
_DEVICE = re.compile(r"#?\s*Rank\s+(\d{1,7})\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S{1,256})\s+(?:host )?device\s")
_PROGRAM = re.compile(rf"(?:^|[\s/\"'])({'|'.join(PROGRAMS)})(?=$|[\s\"'])")
_BOUNDS = re.compile(r"#?\s*Out of bounds values\s*:\s*(\d{1,19})\s+(\w+)")
_NODES = re.compile(r"\s(?:-N|--nodes)[= ]?(\d{1,6})\b")
_TASKS = re.compile(r"\s(?:-n|--ntasks)[= ]?(\d{1,7})\b")
_SHARES = re.compile(r"\s--(?:n?tasks)-per-node[= ](\d{1,6})\b")
_LABEL = re.compile(r"^\s*(?:\d{1,7}:|\[[^\s\]]*\]:)")
"""The rank in front of a line, by `srun --label` or torchrun."""

_LONGEST = 4096  # characters of a line
_MOST = 1e9  # GB/s or microseconds; what is beyond it is an error of the text
_MOST_MEASUREMENTS = 100_000
_MOST_RANKS = 1 << 20


@dataclass(frozen=True)
class TableReading:
    """The measurements in a text, in its order, and what is wrong or unknown about them."""

    measurements: tuple[Measurement, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass
class _Table:
    """What is known about the table that is being read."""

    collective: str = ""
    nodes: int = 0
    """As the command line says; 0: it does not."""
    measured: Sequence[str] = (*_HALF, *_HALF)
    stamped: bool = False
    ranks: set[int] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    rows: list[Measurement] = field(default_factory=list)


def read_bandwidths(text: str, *, collective: str = "", nodes: int = 0) -> TableReading:
    """Read all tables in a log; other lines, e.g. of NCCL_DEBUG, are skipped.

    `collective`, `nodes`: Fill what the text does not say; what it says is not changed.
    """
    rows, findings = _read_tables(text)
    measurements = tuple(
        replace(row, collective=row.collective or collective, nodes=row.nodes or nodes)
        for row in rows[:_MOST_MEASUREMENTS]
    )
    if any(not each.collective for each in measurements):
        cure = "Name it: --ops all_gather"
        findings.append(Finding(UNKNOWN, "collective", "a table does not name its collective", cure, "log"))
    if any(not each.nodes for each in measurements):
        cure = "Give it: --nodes 2"
        findings.append(Finding(UNKNOWN, "nodes", "the number of nodes is not in the text", cure, "log"))
    return TableReading(measurements, tuple(findings))


def _read_tables(text: str) -> tuple[list[Measurement], list[Finding]]:
    rows: list[Measurement] = []
    findings: list[Finding] = []
    table = _Table()
    for line in (_LABEL.sub("", line, count=1) for line in text.splitlines() if len(line) <= _LONGEST):
        row = _ROW.match(line)
        if row:
            table.rows += _read_row(line, table)
        elif _HEAD.match(line.lstrip()):
            table.measured, table.stamped = _columns(line)
        elif "nThread" in line and "minBytes" in line:
            rows += _finish(table)
            table = _Table(table.collective, table.nodes)
        elif device := _DEVICE.match(line.lstrip()):
            table.ranks.add(int(device[1]))
            table.hosts.add(device[2])
        elif bounds := _BOUNDS.match(line.lstrip()):
            if int(bounds[1]) or bounds[2] != "OK":
                wrong = f"{bounds[1]} values out of bounds ({bounds[2]})"
                findings.append(Finding(FAIL, "wrong-values", wrong, WRONG, table.collective or "table"))
            rows += _finish(table)
            table = _Table()
        else:
            program = _PROGRAM.search(line)
            if program and table.rows:  # the table ended without its last lines
                rows += _finish(table)
                table = _Table()
            table.collective = PROGRAMS[program[1]] if program else table.collective
            table.nodes = _count_nodes(line) or table.nodes
    rows += _finish(table)
    return rows, findings


def _columns(line: str) -> tuple[tuple[str, ...], bool]:
    """Return the measured columns of a header, and whether a timestamp follows them."""
    words = ["time" if word == "cputime" else word for word in line.replace("#", " #").split()]
    words = [word for word in words if word != "#"]
    start = words.index("time") if "time" in words else len(words)
    stamped = words[-1] == "timestamp"
    return tuple(words[start : len(words) - stamped]), stamped


def _read_row(line: str, table: _Table) -> Iterator[Measurement]:
    words = line.split()
    words = words[:-2] if table.stamped else words  # a date and a time
    width = len(table.measured)
    if not 3 <= len(words) - width <= 5 or width < 3:
        return
    values = words[-width:]
    starts = [number for number, name in enumerate(table.measured) if name == "time"]
    for half, start in enumerate(starts):
        end = starts[half + 1] if half + 1 < len(starts) else width
        measurement = _read_half(dict(zip(table.measured[start:end], values[start:end])))
        if measurement is not None:
            yield replace(measurement, size=int(words[0]), in_place=half > 0)


def _read_half(values: dict[str, str]) -> Measurement | None:
    numbers = [_parse_number(values.get(name, "")) for name in ("time", "algbw", "busbw")]
    if None in numbers:
        return None
    time, algbw, busbw = (number or 0.0 for number in numbers)
    wrong = _parse_number(values.get("#wrong", ""))
    return Measurement("", 0, 0, 0, time, algbw, busbw, wrong=-1 if wrong is None else int(wrong))


def _parse_number(text: str) -> float | None:
    """Return a number of a table; None if it is not one, or cannot be true."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and 0 <= number <= _MOST else None


def _finish(table: _Table) -> Iterator[Measurement]:
    """Yield the rows of a table with what is known about all of them."""
    if not table.rows:
        return
    ranks = max(table.ranks) + 1 if table.ranks and max(table.ranks) < _MOST_RANKS else 0
    for row in table.rows:
        yield replace(row, collective=table.collective, ranks=ranks, nodes=len(table.hosts) or table.nodes)


def _count_nodes(command: str) -> int:
    """Return the number of nodes in a line with a command of srun; 0 if it does not say, or is no such line."""
    if "srun " not in command:
        return 0
    nodes, tasks, shares = (pattern.search(command) for pattern in (_NODES, _TASKS, _SHARES))
    if nodes:
        return int(nodes[1])
    return -(-int(tasks[1]) // int(shares[1])) if tasks and shares and int(shares[1]) else 0
