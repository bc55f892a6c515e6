"""`hpcmod why` on jobs with planted faults: real torch.distributed over Gloo on two nodes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hpcmod.runs.running.nodes import rank_program
from hpcmod.runs.values.endings.stacks import parse_answers
from tests.e2e.conftest import Jobs, must
from tests.stack import CHECKOUT, Stack, run

pytestmark = pytest.mark.stack

RANK = CHECKOUT / "tests" / "planted" / "rank.py"
PLANTED: list[dict[str, object]] = [
    {"name": "other", "fault": "other", "how": "broadcast", "rank": 1, "timeout": 8},
    {"name": "port", "fault": "port", "how": "6", "timeout": 2},
    {"name": "address", "fault": "address", "how": "192.0.2.1", "rank": "all", "timeout": 2},
    {"name": "asleep", "fault": "asleep", "how": "sleep", "rank": 1, "timeout": 600},
]
"""Only the last one does not end by itself."""
PYTHON = "/opt/miniconda3/envs/pytorch/bin/python"


def why(jobs: Jobs, *words: str, py_spy: str = "") -> dict[str, Any]:
    """Return the findings of `hpcmod why`."""
    path = f"{py_spy}:{os.environ['PATH']}" if py_spy else os.environ["PATH"]
    done = jobs(jobs.machine.stack.python.parent / "hpcmod", "why", "--json", *words, PATH=path)
    assert done.returncode in (0, 1), f"{done.stdout}{done.stderr}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def submit(jobs: Jobs) -> str:
    """Submit a job on two nodes with all the faults."""
    (jobs.directory / "train.py").write_text(RANK.read_text())
    line = ["-N", "2", "-p", "small-g", "--gpus", "1", "--env", "TORCH_FR_BUFFER_SIZE=100"]
    return jobs.submit(*line, "--", "train.py", *map(json.dumps, PLANTED))


def wait_until_started(jobs: Jobs, number: str, ranks: int) -> None:
    while jobs.output(number).count("started") < ranks:
        time.sleep(0.5)
        assert jobs.state(number) in ("PENDING", "RUNNING"), jobs.output(number)
    time.sleep(0.5)  # time for the ranks that do not wait to reach the next collective


def test_planted_faults_are_named(torch_jobs: Jobs, py_spy: str) -> None:
    number = submit(torch_jobs)
    wait_until_started(torch_jobs, number, 2)
    try:
        asleep = why(torch_jobs, number, py_spy=py_spy)
        assert asleep["verdict"] == "rank 0 waits for rank 1.", asleep
        told = {one["what"] for one in asleep["doing"]}
        assert [what for what in told if what.startswith("wait in all_reduce at train.py:")], asleep
        assert [what for what in told if what.endswith("in load_data")], asleep
        assert asleep["failed"] and asleep["job"]["running"]
        blind = why(torch_jobs, number)
        assert {rank for one in blind["doing"] for rank in one["ranks"]} == {0, 1}
        assert [one for one in blind["unknown"] if re.search(r"outside .*hpcmod add \S+ py-spy", one)], blind
    finally:
        must(torch_jobs("scancel", number))
    torch_jobs.wait(number)
    logs = {name: [f"{name}-rank0.log", f"{name}-rank1.log"] for name in ("port", "address", "other")}
    port = why(torch_jobs, *logs["port"])
    assert (port["cause"]["rule"], port["cause"]["ranks"]) == ("port-in-use", [0]), port
    address = why(torch_jobs, *logs["address"])
    assert address["cause"]["rule"] == "master-not-reached", address
    other = why(torch_jobs, "other_trace_rank_0", "other_trace_rank_1", *logs["other"])
    assert other["cause"]["rule"] == "collective-timeout", other
    assert [call["ranks"] for call in other["mismatch"]["calls"]] == [[0], [1]], other
    assert why(torch_jobs, number)["cause"]["rule"] in ("job-cancelled", "task-exit")


def test_py_spy_in_the_container_is_found_from_outside(stack: Stack, tiny_sif: Path, py_spy: str) -> None:
    """As after `hpcmod add NAME py-spy`: the container has py-spy, but the node does not."""
    job = str(os.getpid() + 20_000_000)
    code = "import time\ndef load_data(): time.sleep(60)\nprint('up', flush=True)\nload_data()"
    environ = stack.environment(Path.home(), SLURM_JOB_ID=job, RANK="5", APPTAINERENV_PREPEND_PATH="/opt/tools")
    bind = ["-B", f"{py_spy}:/opt/tools"]
    line = [str(stack.apptainer), "-q", "exec", *bind, str(tiny_sif), PYTHON, "-c", code]
    with subprocess.Popen(line, env=environ, stdout=subprocess.PIPE, start_new_session=True) as child:
        try:
            assert child.stdout and child.stdout.readline() == b"up\n"
            ask = ["python3", "-I", "-S", "-c", rank_program(), job]
            output = run(ask, {"PATH": "/usr/bin:/bin"}).stdout
            (answer,) = parse_answers(output)
            assert answer.profiler.endswith("/root/opt/tools/py-spy"), output
            assert [(rank.rank, rank.frames[0].function) for rank in answer.ranks] == [(5, "load_data")], output
        finally:
            os.killpg(child.pid, 9)
