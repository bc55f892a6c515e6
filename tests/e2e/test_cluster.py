"""The virtual cluster behaves as the other tests assume."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack import Cluster, Stack, start_cluster, stop_cluster

pytestmark = pytest.mark.stack


@pytest.fixture
def gpu_cluster(stack: Stack) -> Iterator[Cluster]:
    started = start_cluster(stack, "test-gpus", "-n", "1", "-g", "4")
    yield started
    stop_cluster(started)


def test_nodes_have_their_own_names_and_interface(cluster: Cluster) -> None:
    done = cluster("srun", "-N2", "bash", "-c", "hostname; ip -o link show hsn0 | wc -l")
    assert Counter(done.stdout.split()) == {"nid001": 1, "nid002": 1, "1": 2}, done.stderr


def test_jobs_run_as_the_user(cluster: Cluster) -> None:
    mine = cluster("id", "-un").stdout
    assert cluster("srun", "-N1", "id", "-un").stdout == mine


def test_a_job_has_the_same_groups_as_the_login_node(cluster: Cluster) -> None:
    done = cluster("srun", "-N2", "--ntasks-per-node=1", "id", "-G")
    assert done.stdout.split() == [str(os.getgid())] * 2, done.stderr
    assert cluster("id", "-G").stdout.split() == [str(os.getgid())]


def test_users_of_the_cluster_are_in_no_group_that_slurm_could_not_give_them(cluster: Cluster) -> None:
    groups = cluster("getent", "group").stdout.splitlines()
    assert [line for line in groups if not line.endswith(":")] == []


def test_shared_nodes_get_uneven_shares_of_ranks(cluster: Cluster) -> None:
    done = cluster("srun", "-N2", "-n4", "hostname")
    assert Counter(done.stdout.split()) == {"nid001": 3, "nid002": 1}, done.stderr


def test_exit_code_of_a_rank_comes_back(cluster: Cluster) -> None:
    assert cluster("srun", "-N1", "bash", "-c", "exit 42").returncode == 42


def test_gpus_are_handed_out_by_number(gpu_cluster: Cluster) -> None:
    done = gpu_cluster("srun", "-n2", "--gpus-per-task=2", "bash", "-c", "echo $ROCR_VISIBLE_DEVICES")
    assert len(done.stdout.split()) == 2, done.stderr


def processes_of(cluster: Cluster) -> list[str]:
    """Return the command lines of all processes that contain the cluster's directory."""
    lines = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    return [line.decode() for line in lines if str(cluster.dir).encode() in line]


def test_down_leaves_nothing(stack: Stack) -> None:
    started = start_cluster(stack, "test-down")
    assert processes_of(started)
    stop_cluster(started)
    assert processes_of(started) == []
    assert not started.dir.exists()
