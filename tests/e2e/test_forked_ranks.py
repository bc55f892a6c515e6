"""Ranks forked in one container per node, with real Slurm and containers."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import MEET, Jobs
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

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
