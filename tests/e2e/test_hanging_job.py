"""The how-to page on hanging jobs: its commands, for a job in which one rank keeps the others waiting."""

from __future__ import annotations

import os
import re
import shlex
import time

import pytest

from tests.e2e.conftest import Jobs, must
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

PAGE = CHECKOUT / "docs" / "how-to" / "hanging-job.md"

HANGS = """
import os, socket, time

def load_data():
    time.sleep(600)

def wait_for_others():
    time.sleep(600)

print("started", os.environ["RANK"], flush=True)
load_data() if os.environ["RANK"] == "1" else wait_for_others()
"""


def page_command(beginning: str) -> str:
    """Return the only command of the page that begins with this text."""
    found = re.findall(rf"^ *({re.escape(beginning)}.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(found) == 1
    return found[0]


def test_the_commands_of_the_page_find_the_rank_that_keeps_the_others_waiting(tiny_jobs: Jobs, py_spy: str) -> None:
    (tiny_jobs.directory / "train.py").write_text(HANGS)
    job = shlex.split(page_command("hpcmod job PyTorch -N 2 -t 01:00:00 --env PYTHONFAULTHANDLER=1"))
    assert job[:5] == ["hpcmod", "job", "PyTorch", "-N", "2"]
    number = tiny_jobs.hpcmod(*job[1:-2], "-p", "small-g", "--gpus", "1", *job[-2:]).stdout.strip()
    while tiny_jobs.output(number).count("started") < 2:
        time.sleep(0.5)
        assert tiny_jobs.state(number) in ("PENDING", "RUNNING"), tiny_jobs.output(number)
    ask = shlex.split(page_command("hpcmod why 4711").replace("4711", number))
    path = f"{py_spy}:{os.environ['PATH']}"
    told = tiny_jobs(tiny_jobs.machine.stack.python.parent / "hpcmod", *ask[1:], PATH=path).stdout
    assert re.search(r"rank 0 \(nid001\) uses no CPU at train\.py:\d+ in wait_for_others", told), told
    assert re.search(r"rank 1 \(nid002\) uses no CPU at train\.py:\d+ in load_data", told), told
    look, end = (
        page_command(f"srun --jobid=4711 --overlap --nodes=2 --ntasks-per-node=1 {program}").replace("4711", number)
        for program in ("ps", "pkill")
    )
    assert len(re.findall(r"python\S* train\.py", must(tiny_jobs("bash", "-c", look)).stdout)) >= 2
    tiny_jobs("bash", "-c", end)
    tiny_jobs.wait(number)
    output = tiny_jobs.output(number)
    assert output.count("Fatal Python error: Aborted") == 2
    assert "in load_data" in output and "in wait_for_others" in output
    told = tiny_jobs(tiny_jobs.machine.stack.python.parent / "hpcmod", *ask[1:]).stdout
    assert re.search(r"rank 1[^:]*: Fatal Python error: Aborted: run at train\.py:\d+ in load_data", told), told
    assert "in wait_for_others" in told and "signal 6 (SIGABRT)" in told, told
