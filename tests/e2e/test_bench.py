"""`hpcmod bench` on two virtual nodes: real torch.distributed over Gloo, parsed by bench's own reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Jobs, processes_of
from tests.stack import Done

pytestmark = pytest.mark.stack

COLLECTIVES = ("all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter")


def bench(jobs: Jobs, *words: str | Path) -> Done:
    place = ("-N", "2", "-t", "5", "--ranks-per-node", "1")
    program = jobs.machine.stack.python.parent / "hpcmod"
    return jobs(program, "bench", "PyTorch", *place, *words, XDG_STATE_HOME=str(jobs.directory / "state"))


def test_two_nodes_are_requested_measured_and_compared(torch_jobs: Jobs) -> None:
    done = bench(torch_jobs, "--sizes", "1K-2K", "--repeat", "2", "--json")
    assert done.returncode == 0, done.stderr  # LUMI's value, which this site inherits, is of larger messages
    found = json.loads(done.stdout)
    assert [(one["collective"], one["nodes"], one["ranks"], one["size"], one["runs"]) for one in found["points"]] == [
        (name, 2, 2, size, 2) for name in COLLECTIVES for size in (1024, 2048)
    ]
    assert {one["wrong"] for one in found["points"]} == {0}
    assert all(0 < one["low"] <= one["busbw"] <= one["high"] for one in found["points"])
    assert {one["found"] for one in found["findings"]} == {"no reference to compare with"}
    (history,) = (torch_jobs.directory / "state/hpcmod").glob("bandwidth-*.jsonl")
    lines = history.read_text().splitlines()
    assert len([json.loads(line)["point"]["busbw"] for line in lines]) == 10
    assert torch_jobs.left_behind() == [] and processes_of("class TorchRanks") == []
