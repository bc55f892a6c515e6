"""Jobs with forked ranks end like those without: the same state and exit code, and nothing left behind.

Compared with the state before the job: processes, steps, the directory of the job with its caches (and their sockets),
/dev/shm and the disks of the nodes. HPCMOD_THOROUGH=1 tries every way to end every kind of job; the default is one.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.e2e.conftest import MEET, Jobs, must
from tests.e2e.test_nothing_left import LIMIT, PATIENCE, list_processes, read_state, wait

pytestmark = pytest.mark.stack

THOROUGH = os.environ.get("HPCMOD_THOROUGH") == "1"
SHARED = ("-N", "2", "-p", "small-g", "--gpus", "2")
PRELOADED = ("--env", "HPCMOD_PRELOAD=http.server")

STARTS: dict[str, tuple[str, ...]] = {"plain": (), "spawn": PRELOADED, "one-per-node": PRELOADED}

STAY = """
import os, sys, time
print("started", os.environ["RANK"], os.getpid(), os.getppid(), "http.server" in sys.modules, flush=True)
time.sleep(600)
"""

ENDINGS = {
    "scancel": "CANCELLED 0:15",
    "limit": "TIMEOUT 0:15",
    "rank": "FAILED 143:0",
    "parent": "FAILED 143:0",
    "srun": "FAILED 137:0",
}
"""The state and exit code that Slurm reports for each way to end a job, however its ranks were started.

The exit code of a step is the highest of its tasks': here 143, of the ranks that Slurm ends after another was killed.
"""

CASES = [(start, ending) for start in STARTS for ending in ENDINGS if (start, ending) != ("plain", "parent")]


def options_of(start: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the options and the environment of `hpcmod job` for a way to start ranks."""
    given = ("--start", start) if start == "one-per-node" else ()
    return (*SHARED, *given, *STARTS[start]), {"HPCMOD_SPAWN": "1"} if start == "spawn" else {}


def begin(jobs: Jobs, start: str) -> tuple[str, dict[int, tuple[int, int]]]:
    """Submit a job with four ranks; return its ID and, by rank, the PIDs of the rank and its parent."""
    (jobs.directory / "train.py").write_text(STAY)
    options, env = options_of(start)
    number = jobs.submit(*options, "--", "train.py", **env)
    wait(jobs, lambda: jobs.output(number).count("started") == 4, PATIENCE, "the ranks start")
    found = re.findall(r"started (\d) (\d+) (\d+) (\w+)", jobs.output(number))
    assert {forked for *_, forked in found} == {str(start != "plain")}, jobs.output(number)
    return number, {int(rank): (int(process), int(parent)) for rank, process, parent, _ in found}


def end(jobs: Jobs, number: str, ending: str, ranks: dict[int, tuple[int, int]]) -> None:
    """End a running job in the given way; PIDs are those on the virtual machine."""
    if ending == "scancel":
        must(jobs("scancel", number))
    elif ending == "limit":
        must(jobs("scontrol", "update", f"JobId={number}", "TimeLimit=1"))
    elif ending == "srun":
        victims = [each.pid for each in list_processes(jobs) if each.words[0].rpartition("/")[2] == "srun"]
        assert victims
        for victim in victims:
            os.kill(victim, 9)
    else:
        must(jobs("kill", "-9", str(ranks[3][ending == "parent"])))


def check_end(jobs: Jobs, number: str) -> str:
    """Wait until a job has ended; return its state and exit code."""
    jobs.wait(number, seconds=LIMIT)
    shown = must(jobs("scontrol", "show", "job", number)).stdout
    found = re.search(r"JobState=(\w+).*?ExitCode=(\S+)", shown, re.DOTALL)
    assert found, shown
    return f"{found[1]} {found[2]}"


@pytest.mark.parametrize(("start", "ending"), CASES if THOROUGH else [("one-per-node", "parent")])
def test_a_forked_job_ends_as_a_plain_one(tiny_jobs: Jobs, start: str, ending: str) -> None:
    (tiny_jobs.directory / "out").touch()
    before = read_state(tiny_jobs)
    try:
        number, ranks = begin(tiny_jobs, start)
        end(tiny_jobs, number, ending, ranks)
        ended = check_end(tiny_jobs, number)
        print(f"{start}, {ending}: {ended}")
        written = set(map(str, tiny_jobs.directory.glob("train*")))  # program, batch script, output
        after = replace(before, files=before.files | written)
        wait(tiny_jobs, lambda: read_state(tiny_jobs) == after, PATIENCE, f"{ended}: nothing is left")
        assert ended == ENDINGS[ending]
    finally:
        tiny_jobs("bash", "-c", "scancel --user=$USER; while squeue -h | grep -q .; do sleep 0.1; done")


def check_groups(jobs: Jobs, numbers: Sequence[str]) -> None:
    """Check that the ranks of two groups on one node only met each other, and that nothing is left."""
    found = [rank for number in numbers for rank in jobs.ranks(number)]
    assert Counter((rank["group"], rank["total"], rank["host"]) for rank in found) == {
        (group, 1, "nid001"): 2 for group in "ab"
    }
    assert not any("plain start" in jobs.output(number) for number in numbers)
    (jobs.directory / "out").touch()
    wait(jobs, lambda: not list(jobs.caches.iterdir()) and not list_processes(jobs), PATIENCE, "nothing is left")


@pytest.mark.parametrize("start", ["spawn", "one-per-node"][0 if THOROUGH else 1 :])
def test_two_steps_of_a_job_fork_on_one_node_at_once(tiny_jobs: Jobs, start: str) -> None:
    given = ("--start", start) if start == "one-per-node" else ()
    launch = ("hpcmod", "launch", "--gpus", "2", *given, "--", str(MEET), "2")
    env = {"HPCMOD_PRELOAD": "http.server", **options_of(start)[1]}
    lines = ["#!/bin/bash", "module load PyTorch", "export SLURM_TASK_EPILOG=$RUNSCRIPTS/remove-caches"]
    lines += ["for group in a b; do", f"GROUP=$group {' '.join(launch)} &", "done"]
    (tiny_jobs.directory / "two.sh").write_text("\n".join([*lines, "wait", ""]))
    place = ("--output=two-%j.out", "-w", "nid001", "--ntasks-per-node=2", "-p", "small-g", "--gpus-per-node=2")
    number = must(tiny_jobs("sbatch", "--parsable", "--overcommit", *place, "two.sh", **env)).stdout.strip()
    tiny_jobs.wait(number)
    check_groups(tiny_jobs, [number])


if THOROUGH:

    @pytest.mark.parametrize("start", ["spawn", "one-per-node"])
    def test_two_jobs_fork_on_one_node_at_once(tiny_jobs: Jobs, start: str) -> None:
        words, env = options_of(start)
        words = ("-N", "1", "--sbatch=--nodelist=nid001", *words[2:], "-B", str(MEET.parent))
        numbers = [tiny_jobs.submit(*words, "--", str(MEET), "2", **env, GROUP=group) for group in "ab"]
        tiny_jobs.wait(*numbers)
        check_groups(tiny_jobs, numbers)
