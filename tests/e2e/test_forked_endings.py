"""Jobs with forked ranks end like those without: the same state and exit code, and nothing left behind.

Compared with the state before the job: processes, steps, the directory of the job with its caches (and their sockets),
/dev/shm and the disks of the nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.e2e.conftest import MEET, Jobs, must
from tests.e2e.test_nothing_left import LIMIT, PATIENCE, list_processes, read_state, wait
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

SHARED = ("-N", "2", "-p", "small-g", "--gpus", "2")
PRELOADED = ("--env", "HPCMOD_PRELOAD=http.server")

STAY = """
import os, sys, time
print("started", os.environ["RANK"], os.getppid(), "http.server" in sys.modules, flush=True)
time.sleep(600)
"""


def begin(jobs: Jobs) -> tuple[str, int]:
    """Submit a job with four ranks, forked by one process per node; return its ID and the PID of rank 3's parent."""
    (jobs.directory / "train.py").write_text(STAY)
    number = jobs.submit(*SHARED, "--start", "one-per-node", *PRELOADED, "--", "train.py")
    wait(jobs, lambda: jobs.output(number).count("started") == 4, PATIENCE, "the ranks start")
    found = re.findall(r"started (\d) (\d+) (\w+)", jobs.output(number))
    assert {forked for *_, forked in found} == {"True"}, jobs.output(number)
    return number, {int(rank): int(parent) for rank, parent, _ in found}[3]


def check_end(jobs: Jobs, number: str) -> str:
    """Wait until a job has ended; return its state and exit code."""
    jobs.wait(number, seconds=LIMIT)
    shown = must(jobs("scontrol", "show", "job", number)).stdout
    found = re.search(r"JobState=(\w+).*?ExitCode=(\S+)", shown, re.DOTALL)
    assert found, shown
    return f"{found[1]} {found[2]}"


def test_a_forked_job_ends_and_leaves_nothing_if_the_parent_of_its_ranks_is_killed(tiny_jobs: Jobs) -> None:
    (tiny_jobs.directory / "out").touch()
    before = read_state(tiny_jobs)
    try:
        number, parent = begin(tiny_jobs)
        must(tiny_jobs("kill", "-9", str(parent)))
        ended = check_end(tiny_jobs, number)
        written = set(map(str, tiny_jobs.directory.glob("train*")))  # program, batch script, output
        after = replace(before, files=before.files | written)
        wait(tiny_jobs, lambda: read_state(tiny_jobs) == after, PATIENCE, f"{ended}: nothing is left")
        assert (
            ended == "FAILED 143:0"
        )  # the highest of its tasks': of the ranks that Slurm ends after another was killed
    finally:
        tiny_jobs("bash", "-c", "scancel --user=$USER; while squeue -h | grep -q .; do sleep 0.1; done")


def test_ranks_of_one_container_per_node_meet(tiny_jobs: Jobs) -> None:
    shared = (*SHARED, "--start", "one-per-node", *PRELOADED, "-B", str(CHECKOUT / "tests"))
    number = tiny_jobs.submit(*shared, "--", MEET, "0")
    tiny_jobs.wait(number)
    assert [f"{rank['LOCAL_RANK']} {rank['host']} {rank['total']}" for rank in tiny_jobs.ranks(number)] == [
        f"{local} {host} 6" for host in ("nid001", "nid002") for local in (0, 1)
    ]
    assert "plain start" not in tiny_jobs.output(number)


def check_groups(jobs: Jobs, numbers: Sequence[str]) -> None:
    """Check that the ranks of two groups on one node only met each other, and that nothing is left."""
    found = [rank for number in numbers for rank in jobs.ranks(number)]
    assert Counter((rank["group"], rank["total"], rank["host"]) for rank in found) == {
        (group, 1, "nid001"): 2 for group in "ab"
    }
    assert not any("plain start" in jobs.output(number) for number in numbers)
    (jobs.directory / "out").touch()
    wait(jobs, lambda: not list(jobs.caches.iterdir()) and not list_processes(jobs), PATIENCE, "nothing is left")


def test_two_steps_of_a_job_fork_on_one_node_at_once(tiny_jobs: Jobs) -> None:
    launch = ("hpcmod", "launch", "--gpus", "2", "--start", "one-per-node", "--", str(MEET), "2")
    lines = ["#!/bin/bash", "module load PyTorch", "export SLURM_TASK_EPILOG=$RUNSCRIPTS/remove-caches"]
    lines += ["for group in a b; do", f"GROUP=$group {' '.join(launch)} &", "done"]
    (tiny_jobs.directory / "two.sh").write_text("\n".join([*lines, "wait", ""]))
    place = ("--output=two-%j.out", "-w", "nid001", "--ntasks-per-node=2", "-p", "small-g", "--gpus-per-node=2")
    number = must(
        tiny_jobs("sbatch", "--parsable", "--overcommit", *place, "two.sh", HPCMOD_PRELOAD="http.server")
    ).stdout.strip()
    tiny_jobs.wait(number)
    check_groups(tiny_jobs, [number])
