"""Ranks forked in one container per node, with real Slurm and containers; torch on CPUs with HPCMOD_THOROUGH=1."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.e2e.conftest import MEET, Jobs
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

THOROUGH = os.environ.get("HPCMOD_THOROUGH") == "1"
TRAIN = CHECKOUT / "tests" / "e2e" / "forked.py"
SHARED = ("-p", "small-g", "--gpus", "2", "-B", str(CHECKOUT / "tests"))


def test_ranks_of_one_container_per_node_meet(tiny_jobs: Jobs) -> None:
    shared = ("--start", "one-per-node", "--env", "HPCMOD_PRELOAD=http.server")
    number = tiny_jobs.submit("-N", "2", *SHARED, *shared, "--", MEET, "0")
    tiny_jobs.wait(number)
    ranks = tiny_jobs.ranks(number)
    assert [f"{rank['LOCAL_RANK']} {rank['host']} {rank['total']}" for rank in ranks] == [
        f"{local} {host} 6" for host in ("nid001", "nid002") for local in (0, 1)
    ]
    assert "plain start" not in tiny_jobs.output(number)


def losses(jobs: Jobs, nodes: int, *options: str, workers: int = 0) -> tuple[Counter[str], list[str]]:
    """Run the training; return the numbers of forked and plain ranks, and all losses."""
    number = jobs.submit("-N", str(nodes), *SHARED, *options, "--", TRAIN, str(workers))
    jobs.wait(number)
    assert jobs.state(number) == "COMPLETED", jobs.output(number)
    lines = jobs.output(number).splitlines()
    starts = Counter(line.split()[0] for line in lines if line.startswith(("forked ", "plain ")))
    return starts, sorted(line for line in lines if line.startswith("loss "))


if THOROUGH:

    @pytest.mark.parametrize(("nodes", "workers"), [(1, 0), (2, 2)])
    def test_forked_ranks_train_as_plain_ones(torch_jobs: Jobs, nodes: int, workers: int) -> None:
        plain = losses(torch_jobs, nodes, workers=workers)
        forked = losses(torch_jobs, nodes, "--start", "one-per-node", workers=workers)
        assert plain[0] == {"plain": 2 * nodes} and forked[0] == {"forked": 2 * nodes}
        assert len(plain[1]) == 20 * 2 * nodes and forked[1] == plain[1]
