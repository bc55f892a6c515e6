"""Nothing is left behind when `hpcmod check` or `why` is stopped from outside.

The state before and after is compared: processes with the environment of the command, jobs and their steps, and files
in the directory of the job, which is also TMPDIR, in /dev/shm and on the disks of the nodes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import Jobs, must
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

PATIENCE = 60
"""Time limit for everything to end, in seconds."""
LIMIT = 150
"""The same for a job with a time limit of one minute, which Slurm enforces with a delay."""

PLACE = ("PyTorch", "-N", "2", "-p", "small-g")

HANG = """#!/bin/bash
[[ ! ${SLURM_STEP_ID-} ]] || exec -a "hanging in $TMPDIR" sleep 600
PATH=${PATH#*:}
exec "${0##*/}" "$@"
"""
"""Stands in for a program that hangs on the nodes: python3 for `check`, py-spy for `why`."""
TRAIN = "import time\nprint('started', flush=True)\ntime.sleep(600)\n"


@dataclass(frozen=True)
class State:
    """Everything that a command may leave behind."""

    processes: frozenset[str]
    steps: frozenset[str]
    files: frozenset[str]


def read_state(jobs: Jobs, *, caches: bool = True) -> State:
    """Return the current state, with or without the caches of ranks on their nodes."""
    listed = must(jobs("bash", "-c", "squeue -h -o %i && squeue -h -s -o %i && echo && ls -A /dev/shm")).stdout
    steps, _, memory = listed.partition("\n\n")
    files = [str(path) for path in jobs.directory.rglob("*") if path.name != "out"]
    files = [path for path in files if caches or not path.startswith(f"{jobs.caches}/")]
    ours = {f"{one.pid}{' stopped' * one.stopped}: {' '.join(one.words)[:100]}" for one in list_processes(jobs)}
    return State(frozenset(ours), frozenset(steps.split()), frozenset([*files, *jobs.left_behind(), *memory.split()]))


@dataclass(frozen=True)
class Process:
    """A process with the environment of these jobs, anywhere on the virtual machine."""

    pid: int
    words: tuple[str, ...]
    environ: frozenset[str]
    stopped: bool


def list_processes(jobs: Jobs) -> list[Process]:
    """Return all processes with the environment of these jobs."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environ = (path / "environ").read_bytes().decode(errors="replace").split("\0")
            if f"HPCMOD_CACHE_ROOT={jobs.caches}" in environ:
                state = (path / "stat").read_text().rpartition(")")[2].split()[0]
                words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
                found.append(Process(int(path.name), tuple(words), frozenset(environ), stopped=state in "Tt"))
        except OSError:  # another user's process, or it has ended
            continue
    return found


def runs_on_both_nodes(jobs: Jobs, program: str) -> bool:
    """Return whether a program runs as tasks 0 and 1 of a step."""
    there = [one for one in list_processes(jobs) if program in " ".join(one.words)]
    return all(any(f"SLURM_PROCID={rank}" in one.environ for one in there) for rank in range(2))


def wait(jobs: Jobs, condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            said = (jobs.directory / "out").read_text(errors="replace")
            pytest.fail(f"{what}: not within {seconds:.0f} s\n{read_state(jobs)}\nprinted: {said}")
        time.sleep(0.1)


@contextmanager
def started(jobs: Jobs, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command on the login node in its own session, with its output in the file `out`."""
    stack, top = jobs.machine.stack, jobs.directory
    environ = {**stack.environment(Path.home()), "BASH_ENV": str(stack.lmod_init), "MODULEPATH": str(jobs.modules)}
    environ |= {"HPCMOD_SITE": str(jobs.site), "HPCMOD_CACHE_ROOT": str(jobs.caches), "APPTAINER_QUIET": "1"}
    environ |= {"PATH": f"{top / 'bin'}:{environ['PATH']}", "TMPDIR": str(top), "XDG_STATE_HOME": str(top)}
    environ |= {"SBATCH_ACCOUNT": "project_1"}
    line = [CHECKOUT / "dev" / "cluster", "exec", jobs.machine.dir, stack.python.parent / "hpcmod", *words]
    with (top / "out").open("wb") as out:
        child = subprocess.Popen(
            line, cwd=top, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill hpcmod, the child of nsenter."""
    (own,) = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    os.kill(int(own), signal.SIGKILL)


def submit(jobs: Jobs, *options: str) -> str:
    """Submit a job with two ranks that do nothing, and return its ID once they run."""
    (jobs.directory / "train.py").write_text(TRAIN)
    number = jobs.hpcmod("job", *PLACE, "--gpus", "1", "-t", "5", *options, "--submit", "--", "train.py").stdout.strip()
    wait(jobs, lambda: jobs.output(number).count("started") == 2, PATIENCE, "the job starts")
    return number


@pytest.mark.parametrize(("command", "ending"), [("check", "kill"), ("check", "cancel"), ("why", "kill")])
def test_nothing_is_left(tiny_jobs: Jobs, command: str, ending: str) -> None:
    jobs = tiny_jobs
    (jobs.directory / "out").touch()
    (jobs.directory / "bin").mkdir()
    stand_in = jobs.directory / "bin" / {"check": "python3", "why": "py-spy"}[command]
    stand_in.write_text(HANG)
    stand_in.chmod(0o755)
    words = ("why", submit(jobs, "-t", "5")) if command == "why" else ("check", *PLACE, "-t", "5")
    # Slurm ends the job of a killed command, here after two seconds (KillWait), including the programs that remove the
    # caches. `check` has no caches, and the job that `why` examines keeps running.
    has_caches = ending == "cancel"
    before = read_state(jobs, caches=not has_caches)
    try:
        with started(jobs, *words) as child:
            wait(jobs, lambda: runs_on_both_nodes(jobs, "hanging in"), PATIENCE, "the program runs on the nodes")
            if ending == "kill":
                kill(child)
            else:
                must(jobs("bash", "-c", "scancel $(squeue -h -o %i)"))
            child.wait(timeout=LIMIT)
        ended = before if ending == "kill" else State(frozenset(), frozenset(), before.files)
        wait(jobs, lambda: read_state(jobs, caches=not has_caches) == ended, PATIENCE, "all is as before")
    finally:
        jobs("bash", "-c", "scancel --user=$USER; while squeue -h | grep -q .; do sleep 0.1; done")
