from __future__ import annotations

from typing import Any

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.runs.values.logs.traces import merge_traces, parse_trace

BASE = 1_790_857_026_000_000_000
"""From a trace of torch 2.13, in nanoseconds."""


def torch_trace(rank: int, start: float, base: int = BASE) -> dict[str, Any]:
    """Return an excerpt of what torch.profiler writes for a rank with a GPU (Kineto, schemaVersion 1)."""
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "host_name": f"nid00{rank + 1}",
        "baseTimeNanoseconds": base,
        "traceEvents": [
            {"ph": "M", "name": "process_labels", "ts": start, "pid": 4, "tid": 0, "args": {"labels": "CPU"}},
            {"ph": "M", "name": "thread_name", "ts": start, "pid": 4, "tid": 4, "args": {"name": "thread 4 (python)"}},
            {"ph": "M", "name": "process_labels", "ts": start, "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
            {"ph": "M", "name": "thread_name", "ts": start, "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4, "tid": 4, "ts": start, "dur": 2.5},
            {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 3, "pid": 4, "tid": 4, "ts": start + 1},
            {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 3, "pid": 0, "tid": 7, "ts": start + 5, "bp": "e"},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": start + 5, "dur": 9},
            {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": start + 20},
            {"ph": "X", "name": "without a time", "pid": 4, "tid": 4},
        ],
    }


def named(events: list[dict[str, Any]], what: str) -> dict[tuple[int, int], str]:
    return {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == what}


def test_each_rank_is_a_process_with_its_threads_and_gpus() -> None:
    traces = [parse_trace(torch_trace(rank, 4_558_450_324_277.0 + 40 * rank), f"{rank}.json") for rank in (0, 1)]
    merged = merge_traces(traces)
    events = merged.values["traceEvents"]
    assert merged.aligned and [rank.events for rank in merged.ranks] == [5, 5]
    assert named(events, "process_name") == {(0, 0): "rank 0 on nid001", (1, 0): "rank 1 on nid002"}
    threads = named(events, "thread_name")
    assert {threads[rank, number] for rank in (0, 1) for number in (1, 2)} == {"thread 4 (python)", "GPU 0: stream 7 "}
    assert [(one["pid"], one["ts"]) for one in events if one["name"] == "gemm"] == [(0, 5), (1, 45)]
    flows = [(one["ph"], one["pid"], one["id"]) for one in events if one["name"] == "ac2g"]
    assert flows == [("s", 0, 0), ("f", 0, 0), ("s", 1, 1), ("f", 1, 1)]


def test_different_bases_are_made_one() -> None:
    late = parse_trace(torch_trace(1, 100.0, BASE + 7_000_000), "1")
    events = merge_traces([parse_trace(torch_trace(0, 100.0), "0"), late]).values["traceEvents"]
    assert [one["ts"] for one in events if one["name"] == "aten::mm"] == [0, 7000]


def test_without_a_clock_each_rank_begins_at_0() -> None:
    bare = [{"ph": "X", "name": "main", "ts": 70.0, "dur": 5.0}]
    traces = [parse_trace(bare, "a", rank=0), parse_trace(torch_trace(1, 5000.0), "b")]
    merged = merge_traces(traces)
    assert not merged.aligned
    times = [one["ts"] for one in merged.values["traceEvents"] if one["ph"] == "X"]
    assert min(times) == 0 and max(times) == 5


def test_a_plain_list_with_times_since_1970_is_a_trace() -> None:
    events = [{"ph": "X", "name": "hipLaunchKernel", "pid": 2, "tid": 1, "ts": 1.79e15, "dur": 1}]
    one = parse_trace(events, "results.json", rank=3)
    assert (one.kind, one.rank, one.base) == ("other", 3, 0)


@pytest.mark.parametrize("values", [None, 3, "x", {}, {"traceEvents": {}}, [1], {"traceEvents": [None]}])
def test_what_is_not_a_trace_is_refused(values: Any) -> None:
    with pytest.raises(BadInputError, match="not a trace"):
        parse_trace(values, "x", rank=0)


def test_a_trace_needs_a_rank() -> None:
    with pytest.raises(BadInputError, match="its rank is unknown"):
        parse_trace([], "x")


def test_nothing_is_merged_to_an_empty_trace() -> None:
    assert merge_traces([]).values["traceEvents"] == []
    assert [rank.events for rank in merge_traces([parse_trace([], "x", rank=0)]).ranks] == [0]
