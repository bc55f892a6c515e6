"""Traces of several ranks, merged into one that Perfetto and Chrome open: each rank is a process of the merged trace.

Reads the JSON of torch.profiler and of other programs in the Trace Event Format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import BadInputError

Event = Mapping[str, Any]
"""One event of the Trace Event Format; times are in microseconds."""

_KINDS = frozenset("XBEiICstfbne")
_SINCE_1970 = 1e14
"""Larger times in microseconds count from 1970: the year 1973."""


Thread = tuple[str, str]
"""Numbers of a process and a thread, as an event has them."""


@dataclass(frozen=True)
class RankTrace:
    """The trace of one rank."""

    rank: int
    host: str
    """Empty if unknown."""
    kind: str
    """torch or other."""
    events: Sequence[Event]
    """Those that have a time."""
    names: Mapping[Thread, str]
    """Of threads; those of a GPU begin with its name."""
    base: int
    """Nanoseconds from 1970 to time 0 of the events; -1: unknown."""
    source: str
    """Its file."""


def parse_trace(values: Any, source: str, *, rank: int | None = None) -> RankTrace:
    """Return a trace from the JSON of a profiler.

    `rank`: Its rank; None: the JSON tells it.

    Raises BadInputError if it is not a known format, or has no rank.
    """
    about = values if isinstance(values, dict) else {}
    listed = about.get("traceEvents") if about else values
    if not isinstance(listed, list) or not all(isinstance(event, dict) for event in listed):
        raise BadInputError(
            f"{source}: not a trace",
            "Pass JSON files of torch.profiler or rocprof; open those of py-spy at https://www.speedscope.app.",
        )
    told = about.get("distributedInfo")
    number = told.get("rank") if rank is None and isinstance(told, dict) else rank
    if not isinstance(number, int) or number < 0:
        raise BadInputError(
            f"{source}: its rank is unknown", "Rename it, so that its name contains rank0, for example."
        )
    events = [event for event in listed if event.get("ph") in _KINDS and _is_number(event.get("ts"))]
    host = about.get("host_name")
    return RankTrace(
        rank=number,
        host=host if isinstance(host, str) else "",
        kind="torch" if "schemaVersion" in about or "distributedInfo" in about else "other",
        events=events,
        names=_name_threads(event for event in listed if event.get("ph") == "M"),
        base=_find_base(about, events),
        source=source,
    )


def _find_base(about: Mapping[str, Any], events: Sequence[Event]) -> int:
    base = about.get("baseTimeNanoseconds")
    if isinstance(base, int) and not isinstance(base, bool) and base > 0:
        return base
    return 0 if events and min(event["ts"] for event in events) > _SINCE_1970 else -1


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e18 < value < 1e18


def _name_threads(events: Iterable[Event]) -> dict[Thread, str]:
    labels: dict[str, str] = {}
    names: dict[Thread, str] = {}
    for event in events:
        args = event.get("args")
        label, name = (args.get("labels"), args.get("name")) if isinstance(args, dict) else (None, None)
        if event.get("name") == "process_labels" and isinstance(label, str):
            labels[_thread(event)[0]] = label[:200]
        if event.get("name") == "thread_name" and isinstance(name, str):
            names[_thread(event)] = name[:200]
    return {
        thread: f"{labels[thread[0]]}: {name}" if labels.get(thread[0], "").startswith("GPU") else name
        for thread, name in names.items()
    }


def _thread(event: Event) -> Thread:
    return str(event.get("pid", ""))[:200], str(event.get("tid", ""))[:200]


@dataclass(frozen=True)
class MergedRank:
    """What a merged trace has of one rank."""

    rank: int
    host: str
    profiler: str
    events: int
    source: str


@dataclass(frozen=True)
class MergedTrace:
    """One trace of several ranks."""

    values: Mapping[str, Any]
    """The JSON of the Trace Event Format."""
    aligned: bool
    """Whether the times of the ranks are comparable; otherwise each rank begins at 0."""
    ranks: tuple[MergedRank, ...]
    """In the order given."""


def merge_traces(traces: Sequence[RankTrace]) -> MergedTrace:
    """Return the traces of several ranks as one; a rank is a process, and its threads and GPU streams are below it."""
    aligned = all(trace.base >= 0 for trace in traces)
    first = min((trace.base for trace in traces), default=0)
    offsets = [(trace.base - first) / 1000 if aligned else 0.0 for trace in traces]
    starts = [min((event["ts"] for event in trace.events), default=0.0) for trace in traces]
    begin = min((start + offset for start, offset in zip(starts, offsets)), default=0.0)
    events: list[Event] = []
    for number, (trace, offset, start) in enumerate(zip(traces, offsets, starts)):
        events += _shift(trace, number, len(traces), offset - begin if aligned else -start)
    about = {"made by": "hpcmod profile", "aligned": aligned, "sources": [trace.source for trace in traces]}
    values = {"displayTimeUnit": "ms", "otherData": about, "traceEvents": events}
    ranks = (MergedRank(trace.rank, trace.host, trace.kind, len(trace.events), trace.source) for trace in traces)
    return MergedTrace(values, aligned, tuple(ranks))


def _shift(trace: RankTrace, number: int, count: int, shift: float) -> Iterator[Event]:
    """Yield the events of a rank with its own numbers of process, threads and flows."""
    host = f" on {trace.host}" if trace.host else ""
    yield _about(trace.rank, 0, "process_name", name=f"rank {trace.rank}{host}")
    yield _about(trace.rank, 0, "process_sort_index", sort_index=trace.rank)
    threads: dict[Thread, int] = {}
    flows: dict[str, int] = {}
    for event in trace.events:
        key = _thread(event)
        if key not in threads:
            thread = threads[key] = len(threads) + 1
            name = trace.names.get(key, key[1])
            order = thread + (1_000_000 if name.startswith("GPU") else 0)
            yield _about(trace.rank, thread, "thread_name", name=name)
            yield _about(trace.rank, thread, "thread_sort_index", sort_index=order)
        changed = {**event, "pid": trace.rank, "tid": threads[key], "ts": round(float(event["ts"]) + shift, 3)}
        if "id" in event:
            flow = f"{event.get('cat')} {event['id']}"
            changed["id"] = flows.setdefault(flow, len(flows)) * count + number
        yield changed


def _about(process: int, thread: int, kind: str, **values: Any) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": values}
