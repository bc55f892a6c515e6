"""Stacks of the ranks of a running job: read, grouped by what they do, and put in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcmod.runs.values.endings.origin import ranks_of, show_ranks
from hpcmod.runs.values.endings.traceback import FRAME, LIBRARIES, name_place
from hpcmod.runs.values.nodes.answers import AnswerLines

_MOST_RANKS = 100_000
_MOVING = "moving"
"""Said of ranks that were at several lines while they were watched: they do not wait."""

_STARTS = "wait for the other ranks to start"
_WAITS = {
    "init_process_group": _STARTS,
    "_create_c10d_store": _STARTS,
    "rendezvous": _STARTS,
    "destroy_process_group": "wait for the others at their end",
    "_next_data": "wait for data",
    "_try_get_data": "wait for data of a worker",
    "sleep": "sleep",
}
"""What it means that a rank is in a certain function of a library."""

_COLLECTIVE = re.compile(
    r"all_reduce|all_gather(?:_into_tensor|_object)?|all_to_all(?:_single)?|(?:monitored_)?barrier|backward"
    r"|broadcast(?:_object_list)?|gather(?:_object)?|recv|reduce(?:_scatter(?:_tensor)?)?|scatter|send|synchronize"
    r"|allreduce|Allreduce|Barrier|Bcast"
)
"""Functions of libraries that return when other ranks have done their part."""

_MPI_NAMES = (
    "Barrier|Bcast|Gatherv?|Scatterv?|Allgatherv?|Alltoall[vw]?|Reduce|Allreduce|Reduce_scatter(?:_block)?|Scan|Exscan"
    "|Send|Ssend|Recv|Sendrecv(?:_replace)?|Probe|Mprobe|Wait(?:all|any|some)?"
)
"""Methods of mpi4py that return when other ranks have done their part.

Source: the API reference of mpi4py, classes Comm, Intracomm and Request. Those that take any object begin with a small
letter. Tensors and sockets have methods with some of these names, so such a call counts only on a name with `comm` or
`world`.
"""
_MPI_CALL = re.compile(
    rf"\.({_MPI_NAMES}|barrier|bcast|allgather|alltoall|allreduce|sendrecv)\("
    rf"|(?i:comm|world)\w*\.({_MPI_NAMES.lower()})\("
)

_FAULT = re.compile(r"Fatal Python error: (.{1,60})")
_STACK = re.compile(r"(Current t|T)hread 0x\w{1,16}.{0,80} \(most recent call first\):")
_MODULES = "Extension modules: "
_DEEPEST = 400  # lines of one stack

_VERBS = ("wait", "sleep", "run", "use")

STATES = {
    "R": "running",
    "S": "waiting",
    "D": "waiting for a disk or a file system",
    "T": "stopped by a signal",
    "t": "stopped by a debugger",
    "Z": "ended, not collected by its parent",
}
"""Letters of proc(5)."""


@dataclass(frozen=True)
class Frame:
    """One call on a stack."""

    function: str
    file: str
    line: int
    code: str = ""
    """The line itself, where it was read."""


@dataclass(frozen=True)
class RankState:
    """What a rank was doing when its node was asked."""

    rank: int
    host: str
    process: int
    state: str
    """Letter of proc(5)."""
    cpu: float
    """Cores that it used, on average, while it was watched."""
    kernel: str
    """Where it waits in the kernel; empty if it runs or this is not known."""
    frames: tuple[Frame, ...] = ()
    """Of its main thread, the innermost first; empty if there is no stack."""
    problem: str = ""
    """Why there is no stack."""
    moved: bool = False
    """Whether it was at several lines while it was watched."""
    master: str = ""
    """Its MASTER_ADDR; empty if it has none."""


@dataclass(frozen=True)
class NodeAnswer:
    """What one node answered."""

    host: str
    ranks: tuple[RankState, ...]
    profiler: str
    """Path of py-spy; empty if there is none."""


@dataclass(frozen=True)
class Doing:
    """Ranks that do the same."""

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    what: str
    """E.g. "wait in all_reduce at train.py:41"."""
    waits: bool
    """Whether they wait for other ranks."""
    cpu: float


def parse_answers(output: str) -> tuple[NodeAnswer, ...]:
    """Return the answers of the nodes in the output of srun; lines of others and incomplete answers are left out."""
    lines, answers = AnswerLines(), []
    for line in output.split("\n"):
        lines.add(line)
    for answer in lines.answers():
        try:
            answers.append(_parse_answer(answer.values))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
    return tuple(answers)


def _parse_answer(values: Mapping[str, Any]) -> NodeAnswer:
    host = str(values["host"])[:255]
    ranks = tuple(_parse_rank(rank, host) for rank in values["ranks"][:_MOST_RANKS])
    return NodeAnswer(host, ranks, str(values.get("profiler") or "")[:4096])


def _parse_rank(values: Mapping[str, Any], host: str) -> RankState:
    return RankState(
        rank=int(values["rank"]),
        host=host,
        process=int(values["pid"]),
        state=str(values.get("state", ""))[:1],
        cpu=float(values.get("cpu", 0)),
        kernel=str(values.get("wchan") or "")[:80],
        frames=parse_frames(values.get("stacks")),
        problem=" ".join(str(values.get("problem") or "").split())[:300],
        moved=bool(values.get("moved")),
        master=str(values.get("master") or "")[:255],
    )


def parse_frames(threads: Any) -> tuple[Frame, ...]:
    """Return the frames of the main thread from the JSON of `py-spy dump --json`, the innermost first."""
    listed = [thread for thread in threads if isinstance(thread, dict)] if isinstance(threads, list) else []
    named = (thread for thread in listed if thread.get("thread_name") == "MainThread")
    frames = next(named, listed[0] if listed else {}).get("frames")
    return tuple(
        Frame(
            function=str(frame.get("name", "?"))[:200],
            file=str(frame.get("filename", "?"))[:500],
            line=line if isinstance(line := frame.get("line"), int) and 0 <= line < 1 << 31 else 0,
            code=str(frame.get("code") or "")[:200],
        )
        for frame in (frames if isinstance(frames, list) else ())[:500]
        if isinstance(frame, dict)
    )


def read_dumped_stacks(lines: Sequence[str]) -> Iterator[tuple[int, str, RankState | None]]:
    """Yield the faults whose stack Python's fault handler printed: line from 0, name, and what the thread did.

    The last is None if another process printed its own at the same time without a label: whose a frame is, is unknown.
    """
    begun: dict[str, list[tuple[int, str]]] = {}
    stacks: list[tuple[int, str, RankState | None]] = []
    unclosed: dict[str, list[int]] = {}
    closing = any(_MODULES in line for line in lines)
    for number, line in enumerate(lines):
        fault, stack = _FAULT.search(line), _STACK.search(line)
        if fault:
            begun.setdefault(line[: fault.start()], []).append((number, fault[1].strip()))
        elif stack and stack[1] != "T" and begun.get(prefix := line[: stack.start()]):
            frames = _read_frames(lines[number + 1 : number + _DEEPEST], prefix, closing=closing)
            state = RankState(next(iter(ranks_of(line)), -1), "", 0, "R", 1.0, "", frames or ())
            stacks.append((*begun[prefix].pop(0), None if frames is None else state))
            unclosed.setdefault(prefix, []).append(len(stacks) - 1)
            for at in unclosed[prefix][-2:] if len(unclosed[prefix]) > 1 else ():
                stacks[at] = (*stacks[at][:2], None)
            if not closing and frames is not None:
                unclosed[prefix].clear()
        elif _MODULES in line and unclosed.get(prefix := line[: line.index(_MODULES)]):
            unclosed[prefix].pop(0)
    return ((number, name, state) for number, name, state in stacks if state is None or state.frames)


def _read_frames(below: Sequence[str], prefix: str, *, closing: bool) -> tuple[Frame, ...] | None:
    """Return the frames of a stack from the lines below its first one; None if those of another one are among them.

    `closing`: Whether the fault handler ends its output with a list of modules, as since Python 3.10.
    """
    frames: list[Frame] = []
    rest = (line[len(prefix) :] for line in below if line.startswith(prefix))
    for line in rest:
        frame = FRAME.match(line)
        if not frame:
            interrupted = _STACK.match(line) or (_FAULT.match(line) and (closing or not frames))
            goes_on = closing and not line.strip() and FRAME.match(next(rest, ""))
            return None if interrupted or goes_on else tuple(frames)
        frames.append(Frame(frame[3] or "?", frame[1], int(frame[2])))
    return tuple(frames)


def group_ranks(ranks: Iterable[RankState]) -> tuple[Doing, ...]:
    """Group ranks by what they do; the group that the others wait for, as far as this is known, comes first."""
    groups: dict[tuple[str, bool], list[RankState]] = {}
    for rank in ranks:
        groups.setdefault(describe(rank), []).append(rank)
    doing = [
        Doing(
            ranks=tuple(sorted(rank.rank for rank in same)),
            hosts=tuple(sorted({rank.host for rank in same})),
            what=what,
            waits=waits,
            cpu=sum(rank.cpu for rank in same) / len(same),
        )
        for (what, waits), same in groups.items()
    ]
    return tuple(sorted(doing, key=lambda group: (group.waits, len(group.ranks), group.ranks)))


def describe(rank: RankState) -> tuple[str, bool]:
    """Return what a rank does, in words, and whether it waits for other ranks."""
    if not rank.frames:
        usage = "using a core" if rank.cpu > 0.5 else "using no CPU"
        kernel = f", in {rank.kernel}" if re.fullmatch(r"[a-z_]\w{2,}", rank.kernel) else ""
        return f"{STATES.get(rank.state, 'in an unknown state')}, {usage}{kernel}", False
    own = next((frame for frame in rank.frames if not any(part in frame.file for part in LIBRARIES)), None)
    above = rank.frames[: rank.frames.index(own)] if own else rank.frames
    waits = list(filter(None, (_wait_in(frame.function) for frame in above))) or _mpi_call(rank.frames[0])
    if waits:
        activity = waits[-1]
    elif above:
        activity = f"in {above[0].function}"
    elif rank.state == "D":
        activity = "wait for the file system"
    else:
        activity = "run" if rank.cpu > 0.1 else "use no CPU"
    shown = own or rank.frames[0]
    text = f"{activity} at {name_place(shown.file, shown.line, shown.function)}"
    if rank.moved:
        return f"{text} ({_MOVING})", False
    return text, bool(waits) and activity.startswith("wait ") and "data" not in activity


def _wait_in(function: str) -> str:
    """Return what a rank in a function of a library waits for; empty if it does not wait."""
    return _WAITS.get(function) or (f"wait in {function}" if _COLLECTIVE.fullmatch(function) else "")


def _mpi_call(frame: Frame) -> list[str]:
    """Return what the line of a frame waits in, if it has one call of mpi4py and no other that waits."""
    calls = {match[1] or match[2] for match in _MPI_CALL.finditer(frame.code)}
    return [f"wait in MPI {calls.pop()}"] if len(calls) == 1 else []


def tell_group(group: Doing) -> str:
    """Return what a group does in a sentence, e.g. "ranks 0-6 wait in all_reduce at train.py:41"."""
    hosts = f" ({group.hosts[0]})" if len(group.hosts) == 1 else ""
    several = len(set(group.ranks)) > 1
    verb, space, rest = group.what.partition(" ")
    if verb not in _VERBS:
        verb, space, rest = "are" if several else "is", " ", group.what
    elif not several:
        verb += "s"
    return f"{show_ranks(group.ranks)}{hosts} {verb}{space}{rest}"


@dataclass(frozen=True)
class HangVerdict:
    """What the stacks say about a job."""

    hangs: bool
    """Whether ranks wait for others."""
    sentence: str


def judge_start(ranks: Sequence[RankState]) -> HangVerdict | None:
    """Say why ranks of several nodes do not meet at their start; None if that is not what they do."""
    hosts = sorted({rank.host for rank in ranks})
    if len(hosts) < 2:
        return None
    starting = all(describe(rank)[0].startswith(_STARTS) for rank in ranks)
    twice = sorted(rank for rank, count in Counter(rank.rank for rank in ranks).items() if count > 1)
    by_address = {rank.master: rank for rank in ranks}
    leave = "Leave it to conda-python-distributed."
    if twice:
        are = "are" if len(twice) > 1 else "is"
        why = f"{show_ranks(twice)} {are} there more than once: your script sets RANK, and not to SLURM_PROCID. {leave}"
    elif not starting:
        return None
    elif any(re.fullmatch(r"localhost|127\.[\d.]+|::1", address) for address in by_address):
        why = f"Each node waits for ranks of its own: your script sets MASTER_ADDR, to the loopback address. {leave}"
    elif len(by_address) > 1:
        shown = ", ".join(f"{address or 'not set'} on {rank.host}" for address, rank in sorted(by_address.items())[:3])
        why = f"The ranks differ in MASTER_ADDR: {shown}. {leave}"
    else:
        address, own = ranks[0].master, tuple(host.partition(".")[0] for host in hosts)
        other = re.fullmatch(r"[A-Za-z][\w.-]*", address) and not address.startswith(own)
        not_own = f", which is none of their nodes {', '.join(own[:3])}" if other else ""
        why = (
            f"The ranks have not all met at MASTER_ADDR {address or '(not set)'}{not_own}. `hpcmod lint SCRIPT` finds "
            "wrong variables and interfaces, `hpcmod check --network` tests the network between the nodes."
        )
    return HangVerdict(starting, why)


def judge_hang(groups: Sequence[Doing], world: int) -> HangVerdict:
    """Say which ranks wait for which.

    `world`: Number of ranks that there should be; 0 if unknown.
    """
    seen = {rank for group in groups for rank in group.ranks}
    gone = [rank for rank in range(min(world, _MOST_RANKS)) if rank not in seen]
    waiting = [rank for group in groups if group.waits for rank in group.ranks]
    others = [rank for group in groups if not group.waits for rank in group.ranks]
    if gone and seen:
        have = "have" if len(gone) > 1 else "has"
        return HangVerdict(True, f"{show_ranks(gone)} {have} ended, and the others cannot go on alone.")
    if waiting and others:
        verb = "wait" if len(set(waiting)) > 1 else "waits"
        return HangVerdict(True, f"{show_ranks(waiting)} {verb} for {show_ranks(others)}.")
    if waiting and len(groups) > 1:
        return HangVerdict(True, "All ranks wait, but not in the same place: they called different collectives.")
    if waiting:
        return HangVerdict(
            True, "All ranks wait in the same place: for the network, or for a rank that is not among them."
        )
    if any(group.what.endswith(f"({_MOVING})") for group in groups):
        return HangVerdict(False, "The ranks go on: none was at the same line each time.")
    blind = groups and not any(" at " in group.what for group in groups)
    unknown = " Without stacks this is all that can be seen." if blind else ""
    if blind and [len(group.ranks) > 1 for group in groups] == [False, True]:
        return HangVerdict(False, f"{show_ranks(groups[0].ranks)} is not where the others are: look there.{unknown}")
    return HangVerdict(False, f"No rank waits for another in a way that is known.{unknown}")
