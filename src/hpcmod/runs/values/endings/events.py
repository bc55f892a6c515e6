"""What a log tells: known endings, exceptions and exits of ranks, each with its line, rank, host and time."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from hpcmod.runs.values.endings.ending import CAUSE, CONSEQUENCE, SYMPTOM, Ending, match_length
from hpcmod.runs.values.endings.origin import Moment, exit_of, host_of, moment_of, ranks_of
from hpcmod.runs.values.endings.stacks import describe, read_dumped_stacks
from hpcmod.runs.values.endings.statuses import KILLED, TERMINATED, explain_status
from hpcmod.runs.values.endings.traceback import Raised, find_exceptions

EXCEPTION, EXIT, FAULT = "python-exception", "task-exit", "python-fault"
"""Names of endings that no rule knows: an exception of Python, the exit of tasks, a stack of its fault handler."""
FATAL = "Fatal Python error"
"""Beginning of what the fault handler prints, and of the title of such an ending."""

_UNSURE = "They were printed at the same time into one file without the rank in front, so no line of them is certain."
_LABEL = "Read them from this line on. Next time: `srun --label`, with `hpcmod job` --env SLURM_LABELIO=1."
_MIXED = Ending(FAULT, SYMPTOM, "the stacks of several ranks are mixed", _UNSURE, (), cure=_LABEL)

_WRAPPED = "Lmod has detected the following error"
"""Beginning of a message that goes on up to an empty line."""

_ABORTED = "mpi-aborted"
"""Known ending of a program that says why in the line above it."""

_MOST = 5000  # lines of one ending that are used
_SHOWN = 300  # characters of a line
_NEAR = 6  # lines after an exception in which the rest of its message is
_COLLECTIVE = re.compile(r"WorkNCCL\((?:[A-Za-z]+=\w+, )*?SeqNum=(\d{1,12}), OpType=(\w{1,60})")
_EXITS = ("srun: error:", "exitcode", "exits with return", "Abort(", "with errorcode", ": line ", "exited on signal")
_SIGNALS = (" Signal: ", "THE EXIT STRING: ")
_ENDED = ("srun: Terminating", "Job step aborted", "srun: Force Terminated", " CANCELLED AT ")


@dataclass(frozen=True)
class Log:
    """A text to read, and how it is called."""

    name: str
    text: str
    ranks: tuple[int, ...] = ()
    """Ranks that its name says."""


@dataclass(frozen=True)
class Event:
    """Something that a line says about why a run ended."""

    kind: str
    rule: str
    """Name of a known ending, EXCEPTION or EXIT."""
    title: str
    ranks: tuple[int, ...]
    host: str
    log: str
    line: int
    """Counted from 1."""
    text: str
    """The line, shortened."""
    moment: Moment | None = None
    place: str = ""
    """File and line of the user's code."""
    signal: int = 0
    code: int = 0
    collective: tuple[int, str] | None = None
    """Number and name of the collective that the line is about."""
    ending: Ending | None = None


def read_events(log: Log, endings: Sequence[Ending]) -> list[Event]:
    """Return the events of a log, in the order of its lines."""
    lines = log.text.split("\n")
    known = _most_specific(event for ending in endings for event in _of_ending(log, lines, ending))
    events = _with_exceptions(log, lines, sorted(known, key=lambda event: event.line))
    events += [*_faults(log, lines), *_exits(log, lines)]
    return sorted(_with_moments(events, lines), key=lambda event: event.line)


def _of_ending(log: Log, lines: Sequence[str], ending: Ending) -> Iterator[Event]:
    for number in sorted(_lines_with(log.text, {max(pattern.split("*"), key=len) for pattern in ending.lines}))[:_MOST]:
        if number < len(lines) and match_length(_message(lines, number), ending):
            said = _said_before(lines, number) if ending.name == _ABORTED else ""
            event = _event(log, lines, number, ending.kind, ending.name, f"{ending.title}{said}")
            call = _COLLECTIVE.search(lines[number])
            yield replace(event, ending=ending, collective=(int(call[1]), call[2]) if call else None)


def _message(lines: Sequence[str], number: int) -> str:
    """Return a line; of a message that is wrapped all of its lines, but at most a few."""
    if not lines[number].startswith(_WRAPPED):
        return lines[number]
    below = (line.strip() for line in lines[number : number + _NEAR])
    return " ".join(takewhile(lambda line: line and not line.startswith("While processing"), below))


def _said_before(lines: Sequence[str], number: int) -> str:
    """Return what the program wrote last before a line, e.g. ": input deck invalid"."""
    above = (re.sub(r"^ {0,6}\d{1,7}: ", "", line).strip() for line in reversed(lines[max(number - _NEAR, 0) : number]))
    return next((f": {line[:_SHOWN]}" for line in above if re.search(r"\w", line)), "")


def _most_specific(events: Iterable[Event]) -> list[Event]:
    """Return one event for each line: the one of the longest pattern."""
    best: dict[int, tuple[int, Event]] = {}
    for event in events:
        length = match_length(event.text, event.ending) if event.ending else 0
        if length > best.get(event.line, (-1, event))[0]:
            best[event.line] = (length, event)
    return [event for _, event in best.values()]


def _lines_with(text: str, parts: set[str]) -> set[int]:
    """Return the numbers of the lines, from 0, in which one of the strings is; each line is looked at once a string."""
    offsets: list[int] = []
    for part in parts:
        at = text.find(part)
        while at >= 0 and len(offsets) < 20 * _MOST:
            offsets.append(at)
            end = text.find("\n", at)
            at = text.find(part, end) if end >= 0 else -1
    ends = [match.start() for match in re.finditer("\n", text)] if offsets else []
    return {bisect_right(ends, offset) for offset in offsets}


def _event(log: Log, lines: Sequence[str], number: int, kind: str, rule: str, title: str) -> Event:
    line = _message(lines, number)
    shown = max(line.split("\r"), key=len) if "\r" in line else line
    return Event(
        kind=kind,
        rule=rule,
        title=title,
        ranks=ranks_of(line) or log.ranks,
        host=host_of(line),
        log=log.name,
        line=number + 1,
        text=" ".join(shown.split())[:_SHOWN],
        moment=moment_of(line),
    )


def _with_exceptions(log: Log, lines: Sequence[str], known: list[Event]) -> list[Event]:
    """Add exceptions; a known ending in the message of one gets its rank and place instead."""
    by_line: dict[int, list[int]] = {}
    for index, event in enumerate(known):
        by_line.setdefault(event.line - 1, []).append(index)
    for raised in find_exceptions(lines):
        near = [index for line in range(raised.line, raised.line + _NEAR) for index in by_line.get(line, ())]
        near = [index for index in near if _belongs(known[index], raised)]
        for index in near:
            known[index] = replace(
                known[index], ranks=known[index].ranks or raised.ranks, place=known[index].place or raised.place
            )
        if not near:
            kind = CONSEQUENCE if raised.text.startswith("KeyboardInterrupt") else CAUSE
            event = _event(log, lines, raised.line, kind, EXCEPTION, raised.text[:_SHOWN])
            known.append(replace(event, ranks=raised.ranks or event.ranks, place=raised.place))
    return known


def _belongs(event: Event, raised: Raised) -> bool:
    """Return whether a line near an exception is part of its message."""
    same = not raised.ranks or event.ranks in ((), raised.ranks)
    return same and not event.text.startswith(("srun:", "slurmstepd"))


def _faults(log: Log, lines: Sequence[str]) -> Iterator[Event]:
    """Yield what processes did when a fault ended them."""
    for number, name, state in read_dumped_stacks(lines):
        if state is None:
            event = _event(log, lines, number, _MIXED.kind, FAULT, f"{FATAL}: {name}: {_MIXED.title}")
            yield replace(event, ending=_MIXED)
            continue
        doing, waits = describe(state)
        aborted = CONSEQUENCE if waits else SYMPTOM  # by hand, or by a library that has said why
        kind = aborted if name == "Aborted" else CAUSE
        event = _event(log, lines, number, kind, FAULT, f"{FATAL}: {name}: {doing}")
        yield replace(event, ranks=event.ranks if state.rank < 0 else (state.rank,))


def _exits(log: Log, lines: Sequence[str]) -> Iterator[Event]:
    """Yield the exits of tasks; those after Slurm began to end the step are consequences."""
    ended = False
    for number in sorted(_lines_with(log.text, {*_EXITS, *_SIGNALS, *_ENDED})):
        line = lines[number]
        ended = ended or any(part in line for part in _ENDED)
        outcome = exit_of(line)
        if outcome is None:
            continue
        asked = outcome.signal == TERMINATED and (ended or not line.startswith("srun: error:"))
        follows = asked or (ended and outcome.signal == KILLED)
        title = f"ended with {explain_status(outcome.code, outcome.signal)}"
        event = _event(log, lines, number, CONSEQUENCE if follows else CAUSE, EXIT, title)
        above = lines[max(number - 1, 0)] if line.lstrip().startswith(("exitcode", "with errorcode")) else ""
        ranks = outcome.ranks or event.ranks or ranks_of(above)
        host = event.host or outcome.host
        yield replace(event, ranks=ranks, host=host, code=outcome.code, signal=outcome.signal)


def _with_moments(events: Sequence[Event], lines: Sequence[str]) -> Iterator[Event]:
    """Give each event without a time that of the last line before it which has one, among the 50 lines above."""
    for event in events:
        moment, at = event.moment, event.line - 1
        for number in range(at, max(at - 50, -1), -1):
            if moment is not None:
                break
            moment = moment_of(lines[number]) if number < len(lines) else None
        yield replace(event, moment=moment)
