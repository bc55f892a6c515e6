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


@dataclass(frozen=True)
class RankTrace:
    """The trace of one rank."""

    rank: int
    host: str
    """Empty if unknown."""
    kind: str
    """torch or other."""
    events: Sequence[Event]
    base: int
    """Nanoseconds from 1970 to time 0 of the events; -1: unknown."""
    source: str
    """Its file."""


def parse_trace(values: Any, source: str, *, rank: int | None = None) -> RankTrace:
    """Return a trace from the JSON of a profiler.

    Parameters
    ----------
    rank
        Its rank; None: the JSON tells it.

    Raises
    ------
    BadInputError
        If it is not a known format, or has no rank.
    """
    listed = values.get("traceEvents") if isinstance(values, dict) else values
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise BadInputError(
            f"{source}: not a trace",
            "Pass JSON files of torch.profiler or rocprof; open those of py-spy at https://www.speedscope.app.",
        )
    about = values if isinstance(values, dict) else {}
    told = about.get("distributedInfo")
    own = told.get("rank") if isinstance(told, dict) else None
    number = rank if rank is not None else own if isinstance(own, int) and own >= 0 else None
    events = [one for one in listed if one.get("ph") == "M" or (one.get("ph") in _KINDS and _is_number(one.get("ts")))]
    base = about.get("baseTimeNanoseconds")
    times = [one["ts"] for one in events if one["ph"] != "M"]
    absolute = bool(times) and min(times) > _SINCE_1970
    known = base if isinstance(base, int) and not isinstance(base, bool) and base > 0 else 0 if absolute else -1
    kind = "torch" if "schemaVersion" in about or "distributedInfo" in about else "other"
    host = about.get("host_name")
    return RankTrace(_need_rank(number, source), host if isinstance(host, str) else "", kind, events, known, source)


def _need_rank(rank: int | None, source: str) -> int:
    if rank is None:
        raise BadInputError(
            f"{source}: its rank is unknown", "Rename it, so that its name contains rank0, for example."
        )
    return rank


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e18 < value < 1e18


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
    aligned = all(one.base >= 0 for one in traces)
    first = min((one.base for one in traces), default=0)
    offsets = [(one.base - first) / 1000 if aligned else 0.0 for one in traces]
    starts = [min((_time(event) for event in one.events if _is_timed(event)), default=0.0) for one in traces]
    begin = min((start + offset for start, offset in zip(starts, offsets)), default=0.0)
    events: list[Event] = []
    ranks = []
    for number, (one, offset, start) in enumerate(zip(traces, offsets, starts)):
        shift = offset - begin if aligned else -start
        own = list(_shift(one, number, len(traces), shift))
        ranks.append(MergedRank(one.rank, one.host, one.kind, sum(map(_is_timed, own)), one.source))
        events += own
    about = {"made by": "hpcmod profile", "aligned": aligned, "sources": [one.source for one in traces]}
    values = {"displayTimeUnit": "ms", "otherData": about, "traceEvents": events}
    return MergedTrace(values, aligned, tuple(ranks))


def _time(event: Event) -> float:
    return float(event["ts"])


def _is_timed(event: Event) -> bool:
    return bool(event["ph"] != "M")


def _shift(trace: RankTrace, number: int, count: int, shift: float) -> Iterator[Event]:
    """Yield the events of a rank with its own numbers of process, threads and flows."""
    names = _name_threads(trace.events)
    host = f" on {trace.host}" if trace.host else ""
    yield _about(trace.rank, 0, "process_name", name=f"rank {trace.rank}{host}")
    yield _about(trace.rank, 0, "process_sort_index", sort_index=trace.rank)
    threads: dict[tuple[str, str], int] = {}
    flows: dict[str, int] = {}
    for event in trace.events:
        if not _is_timed(event):
            continue
        key = _thread(event)
        if key not in threads:
            threads[key] = len(threads) + 1
            name, place = names.get(key, key[1]), threads[key]
            yield _about(trace.rank, place, "thread_name", name=name)
            yield _about(trace.rank, place, "thread_sort_index", sort_index=_order(name, place))
        changed = {**event, "pid": trace.rank, "tid": threads[key], "ts": round(_time(event) + shift, 3)}
        if "id" in event:
            flow = f"{event.get('cat')} {event['id']}"
            changed["id"] = flows.setdefault(flow, len(flows)) * count + number
        yield changed


def _order(name: str, number: int) -> int:
    return number + (1_000_000 if name.startswith("GPU") else 0)


def _thread(event: Event) -> tuple[str, str]:
    return str(event.get("pid", ""))[:200], str(event.get("tid", ""))[:200]


def _about(process: int, thread: int, what: str, **values: Any) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": values}


def _name_threads(events: Iterable[Event]) -> dict[tuple[str, str], str]:
    """Return the names of threads; those of a GPU begin with its name."""
    labels: dict[str, str] = {}
    names: dict[tuple[str, str], str] = {}
    for event in events:
        args = event.get("args")
        if event["ph"] != "M" or not isinstance(args, dict):
            continue
        if event.get("name") == "process_labels" and isinstance(args.get("labels"), str):
            labels[_thread(event)[0]] = args["labels"][:200]
        if event.get("name") == "thread_name" and isinstance(args.get("name"), str):
            names[_thread(event)] = args["name"][:200]
    return {
        key: f"{labels[key[0]]}: {name}" if labels.get(key[0], "").startswith("GPU") else name
        for key, name in names.items()
    }
