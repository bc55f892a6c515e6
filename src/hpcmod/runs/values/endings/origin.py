"""Which rank, host and time a line of a run's output belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hpcmod.machine.values.facts import format_cpus
from hpcmod.runs.values.endings.statuses import parse_outcome, signal_of

Moment = tuple[int, int, int, int, float]
"""Month, day, hour, minute, second: what all formats of logs have."""

_READ = 2000  # characters of a line in which its origin is searched
_MOST_RANKS = 1 << 20
_RANK = re.compile(
    r"\[rank(\d{1,7})\]:|\[(?:PG [^\]]{1,200}?)?Rank (\d{1,7})\]|^ {0,6}(\d{1,7}): |^\s+rank\s+: (\d{1,7}) \(local_rank"
    r"|\(rank (\d{1,7}) in comm |MPI_ABORT was invoked on rank (\d{1,7})|^\[\d{1,9},(\d{1,7})\]<std"
    r"|conda-python-distributed: rank (\d{1,7}): "
)
_SRUN = re.compile(r"srun: error: (\S{1,255}): tasks? ([\d,-]{1,4000}): (.{0,200})")
_HOST = re.compile(r"^(?:\[[^\]]{0,40}\] ?)?([A-Za-z][\w.-]{0,254}):\d+:\d+ \[\d+\]|\bON (\S{1,255}) CANCELLED AT ")
_SHELL = re.compile(r"\bline \d{1,7}: +\d{1,9} ((?:Kill|Abort|Seg|Bus|Ill|Float|Term)[a-z ]{2,30})")
_LAUNCHERS = re.compile(
    r"^\s+exitcode\s+: (-?\d{1,3}) \(pid|\bfailed \(exitcode: (-?\d{1,3})\) local_rank"
    r"|\bexits with return code = (-?\d{1,3})|\bAbort\((-?\d{1,3})\) on node|^with errorcode (-?\d{1,3})\b"
)
_MPIRUN = re.compile(r"process rank (\d{1,7}) with PID \d{1,9} on node (\S{1,255}) exited on signal (\d{1,2})\b")
_SIGNAL = re.compile(r"(?:THE EXIT STRING: |^\[[^\]]{1,280}\] Signal: )[A-Z][\w ]{2,40} \((?:signal )?(\d{1,2})\)")
_ISO = re.compile(r"\b\d{4}-(\d\d)-(\d\d)[T_ ](\d\d):(\d\d):(\d\d(?:[.,]\d{1,9})?)")
_GLOG = re.compile(r"\[[EWIF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d\.\d{1,9})")


@dataclass(frozen=True)
class Exit:
    """How tasks of a step ended, as one line tells it."""

    ranks: tuple[int, ...]
    host: str
    code: int
    signal: int
    """0 if the program ended itself."""


def ranks_of(line: str) -> tuple[int, ...]:
    """Return the ranks that a line names as its origin, in order; empty if it names none."""
    srun = _SRUN.search(line[:_READ])
    if srun:
        return parse_ranks(srun[2])
    match = _RANK.search(line[:_READ])
    return (int(next(group for group in match.groups() if group)),) if match else ()


def host_of(line: str) -> str:
    """Return the host that a line names as its origin; empty if it names none."""
    srun = _SRUN.search(line[:_READ])
    if srun:
        return srun[1]
    match = _HOST.search(line[:_READ])
    return next((group for group in match.groups() if group), "") if match else ""


def moment_of(line: str) -> Moment | None:
    """Return the time that a line begins with or contains; None if it has none."""
    match = _ISO.search(line[:_READ]) or _GLOG.search(line[:_READ])
    if not match:
        return None
    month, day, hour, minute = map(int, match.groups()[:4])
    return month, day, hour, minute, float(match[5].replace(",", "."))


def exit_of(line: str) -> Exit | None:
    """Return how tasks ended, from a line of srun, bash, MPI, or a launcher of PyTorch or DeepSpeed; else None."""
    srun = _SRUN.search(line[:_READ])
    outcome = parse_outcome(srun[3]) if srun else None
    if srun and outcome:
        return Exit(parse_ranks(srun[2]), srun[1], *outcome)
    mpirun = _MPIRUN.search(line[:_READ])
    if mpirun:
        return Exit((int(mpirun[1]),), mpirun[2], 0, int(mpirun[3]))
    signal = _SIGNAL.search(line[:_READ])
    if signal:
        return Exit((), "", 0, int(signal[1]))
    shell = _SHELL.search(line[:_READ])
    outcome = parse_outcome(shell[1]) if shell else None
    if outcome:
        return Exit((), "", *outcome)
    launcher = _LAUNCHERS.search(line[:_READ])
    code = int(next(group for group in launcher.groups() if group)) if launcher else 0
    if code:
        return Exit((), "", code, signal_of(code))
    return None


def parse_ranks(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as 0-2,5; at most a million, and none for a list that is not valid."""
    ranks: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return ()
        end = int(last or first)
        if end - int(first) + len(ranks) >= _MOST_RANKS:
            return ()
        ranks.extend(range(int(first), end + 1))
    return tuple(ranks)


def show_ranks(ranks: Iterable[int]) -> str:
    """Return ranks in words: "rank 3", "ranks 0-2 and 5"; empty for none."""
    numbers = sorted(set(ranks))
    spans = format_cpus(numbers).split(",")
    if len(spans) > 6:
        shown = parse_ranks(",".join(spans[:5]))
        spans = [*spans[:5], f"{len(numbers) - len(shown)} more"]
    listed = " and ".join([", ".join(spans[:-1]), spans[-1]] if len(spans) > 1 else spans)
    return f"rank{'s' if len(numbers) > 1 else ''} {listed}" if numbers else ""
