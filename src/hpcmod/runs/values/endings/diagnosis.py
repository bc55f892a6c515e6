"""From the events of all logs to an explanation: the first cause, what follows from it, and what is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hpcmod.runs.values.endings.ending import CAUSE, CONSEQUENCE, HINT, KINDS, SYMPTOM
from hpcmod.runs.values.endings.events import EXCEPTION, EXIT, FATAL, FAULT, Event
from hpcmod.runs.values.endings.origin import show_ranks
from hpcmod.runs.values.endings.statuses import ABORTED, CURES, KILLED, TERMINATED, parse_outcome

_GENERAL = (EXCEPTION, EXIT, FAULT)
"""What no rule knows: it explains nothing after the failure of another rank."""

_OF_LAUNCHERS = ("mpi-process-ended", "rank-taken-down", "step-ended")
"""Known endings that a launcher reports: a rank has not seen another one's failure by them."""


_WRAPPED = " in DataLoader worker process"
"""Part of the message with which PyTorch raises the exception of a worker again: its own message comes later."""

_PACKAGES_OFF, _NO_MODULE = "packages-off", "python-module-missing"
"""Known endings of which the first explains the second."""

_NOT_REACHED = "master-not-reached"
"""Known ending whose line has the address."""
_LOOPBACK = re.compile(r"\((?:localhost|127\.[\d.]+|::1), \d+\)|\[?(?:localhost|127\.[\d.]+|::1)\]?:\d")
_EACH_ALONE = "It is the loopback address: the ranks of each node look for rank 0 on their own node."
_LEAVE_IT = "For one run on all nodes, leave it to conda-python-distributed: `hpcmod lint SCRIPT` finds the line."

_NAMED = {
    "NAME": r"^([\w.+-]+)/[\w.+-]+: you",
    "LIBRARY": r"([\w.+-]+): cannot open shared object file",
    "PACKAGE": r"No module named '(\w+)|are unknown: \"([\w.+-]+)",
}
"""By word in what to do: what the line says of it, such as the module that Python or Lmod did not find."""

_OUT_OF_MEMORY = "oom-kill"
"""Known ending whose line does not name the rank."""


@dataclass(frozen=True)
class Group:
    """Events of several ranks that say the same; file, line and text are those of the first one."""

    kind: str
    """cause, symptom, consequence or hint."""
    rule: str
    """Name of the known ending; exception or exit for others."""
    title: str
    """What happened, in words."""
    ranks: tuple[int, ...]
    """All ranks that said it, in order."""
    hosts: tuple[str, ...]
    """Those that are known, sorted."""
    place: str
    """File and line of the program; empty if unknown."""
    file: str
    line: int
    """0: not in a file."""
    text: str
    count: int
    """Number of events."""
    signal: int
    """Of an exit; 0: none."""
    meaning: str
    """What it means; empty if it is no known ending."""
    cure: str
    """What to do; empty if nothing is known."""
    source: str
    """Page that documents it; empty if unknown."""

    @property
    def who(self) -> str:
        """Return the ranks and the host, in words; empty if unknown."""
        host = f" on {self.hosts[0]}" if len(self.hosts) == 1 else ""
        return show_ranks(self.ranks) + host if self.ranks else host.strip()


@dataclass(frozen=True)
class Waiting:
    """Ranks that waited in a collective."""

    number: int
    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Diagnosis:
    """Why a run ended, as far as its logs tell."""

    cause: Group | None
    """What explains it best; null if nothing was found."""
    others: tuple[Group, ...]
    """Further causes and symptoms, in order of their time."""
    followed: tuple[Group, ...]
    """What other ranks said of the first failure."""
    hints: tuple[Group, ...]
    silent: tuple[int, ...]
    """Ranks that did not report what the others were waiting for; only for a collective that timed out."""
    collectives: tuple[Waiting, ...]
    """In which collectives ranks waited."""


def diagnose(events: Sequence[Event], *, world: int = 0, nodes: int = 0) -> Diagnosis:
    """Explain a run.

    `events`: Those of all logs; in the order of the logs and their lines.
    `world`, `nodes`: Number of ranks and of nodes; 0 if unknown.
    """
    ordered = _order(_with_hosts(events))
    groups = _group(_demote(ordered))
    by_kind = {kind: [group for group in groups if group.kind == kind] for kind in KINDS}
    chosen = _choose(by_kind[CAUSE], by_kind[SYMPTOM], by_kind[HINT])
    waiting = [event for event in ordered if event.ranks and event.rule == "collective-timeout"]
    several = max(nodes, len({event.host for event in ordered if event.host})) > 1
    return Diagnosis(
        cause=_with_address(_with_victim(chosen, groups), several=several) if chosen else None,
        others=tuple(group for group in groups if group.kind in (CAUSE, SYMPTOM) and group is not chosen),
        followed=tuple(group for group in by_kind[CONSEQUENCE] if not _repeats(group, chosen)),
        hints=tuple(group for group in by_kind[HINT] if group is not chosen),
        silent=_find_silent(waiting, world or max((rank + 1 for event in events for rank in event.ranks), default=0)),
        collectives=_find_collectives(waiting),
    )


def _with_hosts(events: Sequence[Event]) -> list[Event]:
    """Give events of one rank the host that another line names for it."""
    hosts = {rank: event.host for event in events if event.host for rank in event.ranks}
    return [
        replace(event, host=hosts.get(event.ranks[0], "")) if len(event.ranks) == 1 and not event.host else event
        for event in events
    ]


def _order(events: Sequence[Event]) -> list[Event]:
    """Sort by time if every event has one; else keep the order of logs and lines."""
    if len({event.log for event in events}) > 1 and all(event.moment for event in events):
        return sorted(events, key=lambda event: event.moment or (0, 0, 0, 0, 0.0))
    return list(events)


def _demote(events: Sequence[Event]) -> Iterable[Event]:
    """Yield events; an exception or exit of a rank that had seen another rank's failure before is its consequence."""
    seen: set[int] = set()
    anonymous = False
    off = {_PACKAGES_OFF, _NO_MODULE} <= {event.rule for event in events}
    for event in events:
        if off and event.rule in (_PACKAGES_OFF, _NO_MODULE):
            event = replace(event, kind=CAUSE if event.rule == _PACKAGES_OFF else CONSEQUENCE)
        general = event.rule in _GENERAL
        told = all(rank in seen for rank in event.ranks) if event.ranks else anonymous
        explained = event.rule == EXIT and event.code and not event.signal and anonymous
        if event.kind == CAUSE and general and (told or explained):
            event = replace(event, kind=CONSEQUENCE)
        if event.kind != HINT and event.rule not in (EXIT, FAULT, *_OF_LAUNCHERS):
            seen.update(event.ranks)
            anonymous = anonymous or not event.ranks
        yield event


def _group(events: Iterable[Event]) -> list[Group]:
    groups: dict[tuple[str, str, str], list[Event]] = {}
    for event in events:
        own = f"{event.place} {event.title}" if event.rule in _GENERAL else ""
        groups.setdefault((event.kind, event.rule, own), []).append(event)
    return list(map(_make_group, groups.values()))


def _make_group(same: Sequence[Event]) -> Group:
    first, ending = same[0], same[0].ending
    return Group(
        kind=first.kind,
        rule=first.rule,
        title=first.title,
        ranks=tuple(sorted({rank for event in same for rank in event.ranks})),
        hosts=tuple(sorted({event.host for event in same if event.host})),
        place=first.place,
        file=first.log,
        line=first.line,
        text=first.text,
        count=len(same),
        signal=first.signal,
        meaning=ending.text if ending else "",
        cure=_fill_in(ending.help, first.text) if ending else CURES.get(first.signal, ""),
        source=ending.source if ending else "",
    )


def _fill_in(cure: str, text: str) -> str:
    """Replace words in what to do by what a line names."""
    for word, pattern in _NAMED.items():
        match = re.search(pattern, text)
        cure = re.sub(rf"\b{word}\b", next(filter(None, match.groups())), cure) if match else cure
    return cure


def _choose(causes: Sequence[Group], symptoms: Sequence[Group], hints: Sequence[Group]) -> Group | None:
    """Return what explains a run best: a cause, a death by a signal, a symptom, an exit code, a hint, in this order.

    SIGTERM and SIGABRT count less than a symptom: Slurm ends jobs so, and programs themselves after they said why.
    """
    named = sorted((cause for cause in causes if cause.rule != EXIT), key=lambda cause: _WRAPPED in cause.title)
    exits = [cause for cause in causes if cause.rule == EXIT]
    killed = [cause for cause in exits if cause.signal not in (0, ABORTED, TERMINATED)]
    ended = [cause for cause in exits if cause not in killed]
    symptoms = sorted(symptoms, key=lambda symptom: symptom.rule == FAULT and bool(symptom.cure))  # mixed stacks last
    return next(iter([*named, *killed, *symptoms, *ended, *hints]), None)


def _repeats(group: Group, chosen: Group | None) -> bool:
    """Return whether other ranks failed as the first one did."""
    return chosen is not None and group.rule == EXCEPTION and (group.title, group.place) == (chosen.title, chosen.place)


def _with_victim(group: Group, groups: Sequence[Group]) -> Group:
    """Return a group with the ranks and hosts that a signal ended: srun reports the signal, and nothing else of them.

    All stacks without a label together are theirs if they are as many.
    """
    if group.ranks or group.rule not in (_OUT_OF_MEMORY, FAULT):
        return group
    ended = parse_outcome(group.title.removeprefix(f"{FATAL}: ")) if group.rule == FAULT else (0, KILLED)
    killed = [other for other in groups if other.rule == EXIT and (0, other.signal) == ended]
    stacks = [other.count for other in groups if other.rule == FAULT]
    if not killed or (group.rule == FAULT and not len(killed[0].ranks) == sum(stacks) == group.count):
        return group
    return replace(group, ranks=killed[0].ranks, hosts=killed[0].hosts)


def _with_address(group: Group, *, several: bool) -> Group:
    """Return a group with what it means that ranks of several nodes did not reach the loopback address."""
    alone = several and group.rule == _NOT_REACHED and _LOOPBACK.search(group.text)
    return replace(group, meaning=_EACH_ALONE, cure=_LEAVE_IT) if alone else group


def _find_silent(waiting: Sequence[Event], world: int) -> tuple[int, ...]:
    told = {rank for event in waiting for rank in event.ranks}
    return tuple(rank for rank in range(min(world, 1 << 20)) if rank not in told) if told else ()


def _find_collectives(waiting: Sequence[Event]) -> tuple[Waiting, ...]:
    """Return the first collective that each rank reports, with the ranks that do."""
    first: dict[int, tuple[int, str]] = {}
    for event in waiting:
        for rank in event.ranks if event.collective else ():
            first.setdefault(rank, event.collective or (0, ""))
    ranks: dict[tuple[int, str], list[int]] = {}
    for rank, collective in sorted(first.items()):
        ranks.setdefault(collective, []).append(rank)
    return tuple(Waiting(*collective, tuple(listed)) for collective, listed in sorted(ranks.items()))
