"""A real Ray cluster on two nodes; needs HPCMOD_RAY, a directory with Ray for the Python of the tiny image:

    pip install --target DIRECTORY ray

Not part of `dev/test`, as Ray unpacks to 250 MB. tests/unit/runscripts/test_ray.py uses a fake Ray.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.conftest import Jobs, must

PACKAGES = os.environ.get("HPCMOD_RAY", "")

PROGRAM = """
import json, os, socket, sys, time
import ray
ray.init()

@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def where(number):
    time.sleep(1)
    return socket.gethostname(), ray.util.get_node_ip_address(), number

hosts = ray.get([where.remote(number) for number in range(6)])
nodes = sorted(node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"])
gpus, token = ray.cluster_resources().get("GPU"), os.environ.get("RAY_AUTH_MODE")
told = {"hosts": sorted({host for host, *_ in hosts}), "nodes": nodes, "gpus": gpus, "auth": token}
print(json.dumps(told), flush=True)
if "stay" in sys.argv:
    time.sleep(600)
sys.exit(int(sys.argv[1]))
"""
SHARED = ("-p", "small-g", "--gpus", "2", "-N", "2", "--launcher", "ray")


def submit(jobs: Jobs, *words: str, mark: str) -> str:
    """Submit the program with a mark in the environment of all processes of the job."""
    (jobs.directory / "train.py").write_text(PROGRAM)
    (jobs.directory / "home").mkdir(exist_ok=True)
    inside = {"APPTAINERENV_PYTHONPATH": PACKAGES, "APPTAINERENV_PREPEND_PATH": f"{PACKAGES}/bin"}
    bound = {"APPTAINER_BIND": f"{PACKAGES},{jobs.directory},{jobs.local}"}
    bound |= {"RAY_AUTH_TOKEN_PATH": str(jobs.directory / "home/token")}
    # Ray starts a process per CPU in advance, and the virtual nodes have many more CPUs than this machine.
    more = {"MARK": mark, "HPCMOD_KEEP_ENV": "PYTHONPATH", "HPCMOD_RAY_START": "--num-cpus=2"}
    return jobs.submit(*SHARED, "--", "train.py", *words, **more, **inside, **bound)


def marked(mark: str) -> list[int]:
    """Return the PIDs on this machine whose environment contains the mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARK={mark}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def names_of(processes: list[int]) -> list[str]:
    found = []
    for process in processes:
        with suppress(OSError):
            found.append(Path(f"/proc/{process}/cmdline").read_text().replace("\0", " "))
    return found


def wait_for(jobs: Jobs, number: str, text: str) -> None:
    until = time.monotonic() + 240
    while text not in jobs.output(number):
        assert time.monotonic() < until, jobs.output(number)
        time.sleep(0.2)


if PACKAGES:
    pytestmark = pytest.mark.stack

    @pytest.mark.parametrize("status", [0, 7])
    def test_a_program_runs_on_both_nodes_and_its_status_counts(tiny_jobs: Jobs, status: int) -> None:
        number = submit(tiny_jobs, str(status), mark=f"status-{status}-{os.getpid()}")
        tiny_jobs.wait(number)
        output = tiny_jobs.output(number)
        assert '{"hosts": ["nid001", "nid002"]' in output and '"gpus": 4.0, "auth": "token"' in output, output
        assert f"ExitCode={status}:0" in must(tiny_jobs("scontrol", "show", "job", number)).stdout
        assert not marked(f"status-{status}-{os.getpid()}")

    def test_two_clusters_run_on_the_same_nodes(tiny_jobs: Jobs) -> None:
        marks = [f"pair-{which}-{os.getpid()}" for which in "ab"]
        jobs = [submit(tiny_jobs, "0", mark=mark) for mark in marks]
        tiny_jobs.wait(*jobs)
        for number in jobs:
            assert '{"hosts": ["nid001", "nid002"]' in tiny_jobs.output(number), tiny_jobs.output(number)
        assert not marked(marks[0]) and not marked(marks[1])

    @pytest.mark.parametrize("how", ["scancel", "scancel-USR1", "limit", "head", "worker", "srun"])
    def test_nothing_of_a_cluster_is_left(tiny_jobs: Jobs, how: str) -> None:
        mark = f"{how}-{os.getpid()}"
        number = submit(tiny_jobs, "0", "stay", mark=mark)
        wait_for(tiny_jobs, number, '{"hosts"')
        end(tiny_jobs, number, how, mark)
        if how == "worker":  # the program goes on without that node
            assert tiny_jobs.state(number) == "RUNNING"
            must(tiny_jobs("scancel", number))
        tiny_jobs.wait(number)
        assert not names_of(marked(mark)), tiny_jobs.output(number)


def end(jobs: Jobs, number: str, how: str, mark: str) -> None:
    """End a running job in the given way."""
    if how == "limit":
        must(jobs("scontrol", "update", f"JobId={number}", "TimeLimit=1"))
    elif how.startswith("scancel"):
        _, _, name = how.partition("-")
        must(jobs("scancel", *([f"--signal={name}"] if name else []), number))
    else:
        node = {"head": "SLURM_NODEID=0", "worker": "SLURM_NODEID=1", "srun": "MARK="}[how]
        word = "srun\0" if how == "srun" else "/runscripts/conda-python-distributed\0"
        victims = []
        for process in marked(mark):
            with suppress(OSError):
                told = Path(f"/proc/{process}/environ").read_text(errors="replace")
                victims += [process] * (node in told and word in Path(f"/proc/{process}/cmdline").read_text())
        assert victims
        for process in victims:
            os.kill(process, signal.SIGKILL)
