"""`hpcmod bench` on two virtual nodes: real torch.distributed over Gloo, parsed by bench's own reader."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.e2e.conftest import Jobs
from tests.stack import Done
from tests.walkthroughs import blocks

pytestmark = pytest.mark.stack

COLLECTIVES = ("all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter")
THOROUGH = os.environ.get("HPCMOD_THOROUGH") == "1"


def bench(jobs: Jobs, *words: str | Path) -> Done:
    place = ("-N", "2", "-t", "5", "--ranks-per-node", "2" if THOROUGH else "1")
    program = jobs.machine.stack.python.parent / "hpcmod"
    return jobs(program, "bench", "PyTorch", *place, *words, XDG_STATE_HOME=str(jobs.directory / "state"))


def test_two_nodes_are_requested_measured_and_compared(torch_jobs: Jobs) -> None:
    done = bench(torch_jobs, "--sizes", "1K-2K", "--repeat", "2", "--json")
    assert done.returncode == 1, done.stderr  # gloo is slower than LUMI's network, whose profile this site extends
    found = json.loads(done.stdout)
    ranks = 4 if THOROUGH else 2
    assert [(one["collective"], one["nodes"], one["ranks"], one["size"], one["runs"]) for one in found["points"]] == [
        (name, 2, ranks, size, 2) for name in COLLECTIVES for size in (1024, 2048)
    ]
    assert {one["wrong"] for one in found["points"]} == {0}
    assert all(0 < one["low"] <= one["busbw"] <= one["high"] for one in found["points"])
    (slow,) = [one for one in found["findings"] if one["level"] == "fail"]
    assert slow["rule"] == "bandwidth" and slow["subject"].startswith("all_reduce on 2 nodes, ")
    (history,) = (torch_jobs.directory / "state/hpcmod").glob("bandwidth-*.jsonl")
    lines = history.read_text().splitlines()
    assert len([json.loads(line)["point"]["busbw"] for line in lines]) == 9  # without the one that was too slow
    assert torch_jobs.left_behind() == [] and torch_jobs.processes("class TorchRanks") == []


if THOROUGH:
    COMMANDS = [shlex.split(line)[1:] for block in blocks("bench", "console") for line in block.splitlines()]

    @pytest.mark.parametrize("words", [words for words in COMMANDS if "--read" not in words], ids=" ".join)
    def test_a_command_of_the_page_runs_on_virtual_nodes(torch_jobs: Jobs, words: list[str]) -> None:
        """Use small sizes and one rank per node; run `-N 2` on four nodes as well."""
        site = torch_jobs.directory / "plain.toml"
        site.write_text('name = "plain"\nextends = "generic"\n[environment]\nGLOO_SOCKET_IFNAME = "hsn0"\n')
        small = ["--sizes", "1K-2K", "--repeat", "1", "--ranks-per-node", "1", "-t", "5"]
        for nodes in ("2", "4") if "2" in words else ("",):
            placed = [nodes if word == "2" else word for word in words]
            own = {"HPCMOD_SITE": str(site), "XDG_STATE_HOME": str(torch_jobs.directory)}
            done = torch_jobs(torch_jobs.machine.stack.python.parent / "hpcmod", *placed, *small, **own)
            assert done.returncode == 0, done.stdout + done.stderr
            assert done.stdout, done.stderr
