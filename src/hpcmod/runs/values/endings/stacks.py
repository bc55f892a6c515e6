"""Stacks of the ranks of a running job: read, grouped by what they do, and put in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcmod.runs.values.endings.origin import ranks_of, show_ranks
from hpcmod.runs.values.endings.traceback import FRAME, LIBRARIES, name_place
from hpcmod.runs.values.nodes.answers import AnswerLines

_MOST_RANKS = 100_000
_MOVING = "moving"
"""Said of ranks that were at several lines while they were watched: they do not wait."""

WAITS = {
    "init_process_group": "wait for the other ranks to start",
    "_create_c10d_store": "wait for the other ranks to start",
    "rendezvous": "wait for the other ranks to start",
    "destroy_process_group": "wait for the others at their end",
    "monitored_barrier": "wait in monitored_barrier",
    "barrier": "wait in barrier",
    **{
        name: f"wait in {name}"
        for name in (
            *(
                "all_reduce",
                "all_gather",
                "all_gather_into_tensor",
                "all_gather_object",
                "all_to_all",
                "all_to_all_single",
            ),
            *("broadcast", "broadcast_object_list", "reduce", "reduce_scatter", "reduce_scatter_tensor", "gather"),
            *("gather_object", "scatter", "send", "recv", "synchronize", "allreduce", "Allreduce", "Barrier", "Bcast"),
        )
    },
    "backward": "wait in backward",
    "_next_data": "wait for data",
    "_try_get_data": "wait for data of a worker",
    "sleep": "sleep",
}
"""What it means that a rank is in a certain function of a library."""

_MPI_NAMES = (
    *("Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall"),
    *("Alltoallv", "Alltoallw", "Reduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block", "Scan"),
    *("Exscan", "Send", "Ssend", "Recv", "Sendrecv", "Sendrecv_replace", "Probe", "Mprobe", "Wait", "Waitall"),
    *("Waitany", "Waitsome"),
)
"""Methods of mpi4py that return when other ranks have done their part.

Source: the API reference of mpi4py, classes Comm, Intracomm and Request. Those that take any object begin with a small
letter. Tensors and sockets have methods with some of these names, so such a call counts only on a name with `comm` or
`world`.
"""
_MPI_CALL = re.compile(
    rf"\.({'|'.join((*_MPI_NAMES, 'barrier', 'bcast', 'allgather', 'alltoall', 'allreduce', 'sendrecv'))})\("
    rf"|(?i:comm|world)\w*\.({'|'.join(name.lower() for name in _MPI_NAMES)})\("
)

_FAULT = re.compile(r"Fatal Python error: (.{1,60})")
_STACK = re.compile(r"Current thread 0x\w{1,16}.{0,80} \(most recent call first\):")
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
    lines, found = AnswerLines(), []
    for line in output.split("\n"):
        lines.add(line)
    for answer in lines.answers():
        try:
            found.append(_parse_answer(answer.values))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
    return tuple(found)


def _parse_answer(values: Mapping[str, Any]) -> NodeAnswer:
    host = str(values["host"])[:255]
    ranks = tuple(_parse_rank(one, host) for one in values["ranks"][:_MOST_RANKS])
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
    )


def parse_frames(threads: Any) -> tuple[Frame, ...]:
    """Return the frames of the main thread from the JSON of `py-spy dump --json`, the innermost first."""
    listed = [one for one in threads if isinstance(one, dict)] if isinstance(threads, list) else []
    main = next((one for one in listed if one.get("thread_name") == "MainThread"), listed[0] if listed else {})
    frames = main.get("frames")
    return tuple(
        Frame(
            str(one.get("name", "?"))[:200],
            str(one.get("filename", "?"))[:500],
            _line(one.get("line")),
            str(one.get("code") or "")[:200],
        )
        for one in (frames if isinstance(frames, list) else ())[:500]
        if isinstance(one, dict)
    )


def _line(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else 0


def read_dumped_stacks(lines: Sequence[str]) -> Iterator[tuple[int, str, RankState]]:
    """Yield the faults whose stack Python's fault handler printed: line from 0, name, and what the thread did."""
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        fault, stack = _FAULT.search(line), _STACK.search(line)
        if fault:
            begun[line[: fault.start()]] = number, fault[1].strip()
        elif stack and line[: stack.start()] in begun:
            prefix = line[: stack.start()]
            frames: list[Frame] = []
            for below in lines[number + 1 : number + _DEEPEST]:
                frame = FRAME.match(below[len(prefix) :])
                if below.startswith(prefix) and frame:
                    frames.append(Frame(frame[3] or "?", frame[1], int(frame[2])))
                elif below.startswith(prefix):
                    break
            if frames:
                yield *begun[prefix], RankState(next(iter(ranks_of(line)), -1), "", 0, "R", 1.0, "", tuple(frames))


def group_ranks(ranks: Iterable[RankState]) -> tuple[Doing, ...]:
    """Group ranks by what they do; the group that the others wait for, as far as this is known, comes first."""
    groups: dict[tuple[str, bool], list[RankState]] = {}
    for one in ranks:
        groups.setdefault(describe(one), []).append(one)
    found = [
        Doing(
            ranks=tuple(sorted(one.rank for one in same)),
            hosts=tuple(sorted({one.host for one in same})),
            what=what,
            waits=waits,
            cpu=sum(one.cpu for one in same) / len(same),
        )
        for (what, waits), same in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: (one.waits, len(one.ranks), one.ranks)))


def describe(one: RankState) -> tuple[str, bool]:
    """Return what a rank does, in words, and whether it waits for other ranks."""
    if not one.frames:
        usage = "uses a core" if one.cpu > 0.5 else "uses no CPU"
        kernel = f", in {one.kernel}" if re.fullmatch(r"[a-z_]\w{2,}", one.kernel) else ""
        return f"{STATES.get(one.state, 'in an unknown state')}, {usage}{kernel}", False
    own = next((frame for frame in one.frames if not any(part in frame.file for part in LIBRARIES)), None)
    above = one.frames[: one.frames.index(own)] if own else one.frames
    known = [WAITS[frame.function] for frame in above if frame.function in WAITS] or _mpi_call(one.frames[0])
    place = name_place(own.file, own.line, own.function) if own else name_place(*_at(one.frames[0]))
    what = known[-1] if known else f"in {above[0].function}" if above else _activity(one)
    if one.moved:
        return f"{what} at {place} ({_MOVING})", False
    return f"{what} at {place}", bool(known) and known[-1].startswith("wait ") and "data" not in known[-1]


def _mpi_call(frame: Frame) -> list[str]:
    """Return what the line of a frame waits in, if it has one call of mpi4py and no other that waits."""
    calls = {found[1] or found[2] for found in _MPI_CALL.finditer(frame.code)}
    return [f"wait in MPI {calls.pop()}"] if len(calls) == 1 else []


def _activity(one: RankState) -> str:
    """Return what a rank does in its own code."""
    if one.state == "D":
        return "wait for the file system"
    return "run" if one.cpu > 0.1 else "use no CPU"


def _at(frame: Frame) -> tuple[str, int, str]:
    return frame.file, frame.line, frame.function


def tell_groups(groups: Sequence[Doing]) -> list[str]:
    """Return one sentence for each group, e.g. "ranks 0-6 wait in all_reduce at train.py:41"."""
    return [_tell(one) for one in groups]


def _tell(one: Doing) -> str:
    hosts = f" ({one.hosts[0]})" if len(one.hosts) == 1 else ""
    first, space, rest = one.what.partition(" ")
    if first not in _VERBS:
        return f"{show_ranks(one.ranks)}{hosts} {'are' if len(one.ranks) > 1 else 'is'} {one.what}"
    return f"{show_ranks(one.ranks)}{hosts} {first}{'' if len(one.ranks) > 1 else 's'}{space}{rest}"


@dataclass(frozen=True)
class HangVerdict:
    """What the stacks say about a job."""

    hangs: bool
    """Whether ranks wait for others."""
    sentence: str


def judge_hang(groups: Sequence[Doing], world: int) -> HangVerdict:
    """Say which ranks wait for which.

    Parameters
    ----------
    world
        Number of ranks that there should be; 0 if unknown.
    """
    found = {rank for one in groups for rank in one.ranks}
    gone = [rank for rank in range(min(world, _MOST_RANKS)) if rank not in found]
    waiting = [rank for one in groups if one.waits for rank in one.ranks]
    others = [rank for one in groups if not one.waits for rank in one.ranks]
    unknown = "" if any(one.waits for one in groups) else " Without stacks this is all that can be seen."
    verb = "wait" if len(waiting) > 1 else "waits"
    if gone and found:
        have = "have" if len(gone) > 1 else "has"
        return HangVerdict(True, f"{show_ranks(gone)} {have} ended, and the others cannot go on alone.")
    if not waiting and any(one.what.endswith(f"({_MOVING})") for one in groups):
        return HangVerdict(False, "The ranks go on: none was at the same line each time.")
    if waiting and others:
        return HangVerdict(True, f"{show_ranks(waiting)} {verb} for {show_ranks(others)}.")
    if waiting and len([one for one in groups if one.waits]) > 1:
        return HangVerdict(True, "All ranks wait, but not in the same place: they called different collectives.")
    if waiting:
        return HangVerdict(
            True, "All ranks wait in the same place: for the network, or for a rank that is not among them."
        )
    return HangVerdict(False, f"No rank waits for another in a way that is known.{unknown if groups else ''}")
