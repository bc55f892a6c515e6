from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.runs.running.logs import read_dump
from hpcmod.runs.values.endings.flight import (
    DifferentCall,
    Dump,
    MissingRank,
    find_mismatch,
    is_dump,
    parse_dump,
    rank_of_file,
)

HERE = Path(__file__).parent / "flight"
"""Dumps of two ranks, PyTorch 2.13 with Gloo: after one all_reduce, rank 0 calls all_reduce and rank 1 broadcast."""


def entry(number: int, operation: str = "all_reduce", sizes: Any = ((3, 4),), line: int = 41) -> dict[str, Any]:
    """Return an entry as in PyTorch's documentation."""
    frames = [
        {"name": "all_reduce", "filename": "/opt/site-packages/torch/distributed/distributed_c10d.py", "line": 1},
        {"name": "step", "filename": "/home/me/train.py", "line": line},
    ]
    return {
        "frames": frames,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "profiling_name": f"nccl:{operation}",
        "input_sizes": [list(one) for one in sizes],
        "input_dtypes": ["Float"],
        "state": "completed",
        "is_p2p": False,
    }


def dump(rank: int, *entries: dict[str, Any]) -> Dump:
    return parse_dump({"version": "2.5", "entries": list(entries)}, rank, "x")


def test_dumps_of_pytorch_itself_are_read() -> None:
    files = sorted(HERE.iterdir())
    found = find_mismatch([read_dump(file.read_bytes(), file) for file in files])
    assert found and (found.group, found.number, found.missing) == ("0 default_pg", 2, ())
    assert tuple((one.call, one.ranks) for one in found.calls) == (
        ("all_reduce [[3, 4]] Float at why9_fr.py:10", (0,)),
        ("broadcast [[3, 4]] Float at why9_fr.py:12", (1,)),
    )


def test_a_rank_that_did_not_call_is_named_with_its_last_call() -> None:
    found = find_mismatch(
        [dump(0, entry(1), entry(2, line=50)), dump(1, entry(1)), dump(2, entry(1), entry(2, line=50))]
    )
    assert found and found.number == 2
    assert found.calls == (DifferentCall("all_reduce [[3, 4]] Float at train.py:50 in step", (0, 2)),)
    assert found.missing == (MissingRank(1, "1, all_reduce [[3, 4]] Float at train.py:41 in step"),)


def test_different_sizes_are_a_mismatch() -> None:
    found = find_mismatch([dump(0, entry(1)), dump(1, entry(1, sizes=((9,),)))])
    assert found and len(found.calls) == 2


def test_ranks_that_agree_have_none() -> None:
    overwritten = [dump(0, entry(1), entry(2)), dump(1, entry(2))]
    for dumps in ([dump(0, entry(1)), dump(1, entry(1))], [dump(0, entry(1))], [], overwritten):
        assert find_mismatch(dumps) is None


def test_json_is_read_too() -> None:
    data = json.dumps({"entries": [entry(1)]}).encode()
    assert is_dump(data) and read_dump(data, Path("x0")).groups["0 default_pg"][1].operation == "all_reduce"


@pytest.mark.parametrize("value", [{"a": 1}, [], {"entries": 3}])
def test_other_data_is_refused(value: Any) -> None:
    with pytest.raises(BadInputError, match="not a dump"):
        parse_dump(value, 0, "x")


def test_odd_entries_are_left_out() -> None:
    odd = [3, {}, {"collective_seq_id": "x"}, {**entry(1), "frames": 3, "process_group": "", "input_sizes": None}]
    found = parse_dump({"entries": odd}, 0, "x")
    assert list(found.groups) == ["?"] and found.groups["?"][1].place == ""


@pytest.mark.parametrize(("name", "rank"), [("nccl_trace_rank_12", 12), ("trace_3", 3), ("fr_4.json", 4), ("x", -1)])
def test_the_rank_is_in_the_name(name: str, rank: int) -> None:
    assert rank_of_file(name) == rank


def test_a_dump_of_strange_values_is_shown_briefly() -> None:
    huge: list[Any] = [1]
    for _ in range(100):
        huge = [huge, huge]
    strange = {**entry(1), "input_sizes": huge, "profiling_name": "nccl:\ud800"}
    found = find_mismatch([dump(0, entry(1)), dump(1, strange)])
    assert found and found.calls[1].call.startswith("? [[[[...], [...]], ")
