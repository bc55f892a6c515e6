"""`hpcmod job --report` and `hpcmod profile` with real torch.distributed over Gloo on two nodes."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

import pytest

from tests.e2e.conftest import Jobs
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

PROGRAM = CHECKOUT / "tests" / "e2e" / "profiled.py"


def profile(jobs: Jobs, *words: str, py_spy: str = "") -> dict[str, Any]:
    """Return what `hpcmod profile` recorded or merged."""
    path = f"{py_spy}:{os.environ['PATH']}" if py_spy else os.environ["PATH"]
    found: dict[str, Any] = json.loads(jobs.hpcmod("profile", "--json", *words, PATH=path).stdout)
    return found


def test_a_job_is_profiled_and_reports_how_long_it_took_to_start(torch_jobs: Jobs, py_spy: str) -> None:
    (torch_jobs.directory / "train.py").write_text(PROGRAM.read_text())
    asked = ("-N", "2", "-p", "small-g", "--gpus", "1", "--report", "--profile-rank", "0,1", "--profiler", "torch")
    number = torch_jobs.submit(*asked, "--", "train.py", "wait")
    while torch_jobs.output(number).count("trained") < 2:
        time.sleep(0.1)
        assert torch_jobs.state(number) in ("PENDING", "RUNNING"), torch_jobs.output(number)
    live = profile(torch_jobs, number, "--rank", "0,1", "--time", "2", py_spy=py_spy)
    assert [(one["rank"], one["host"], one["profiler"]) for one in live["ranks"]] == [
        (0, "nid001", "py-spy"),
        (1, "nid002", "py-spy"),
    ], live
    events = json.loads((torch_jobs.directory / live["file"]).read_text())["traceEvents"]
    loading = {event["pid"] for event in events if event["name"] == "load_data" and event["dur"] > 1_000_000}
    assert live["aligned"] and loading == {0, 1} and not live["problems"], live
    (torch_jobs.directory / "go").touch()
    torch_jobs.wait(number)
    output = torch_jobs.output(number)
    assert torch_jobs.state(number) == "COMPLETED", output
    report = re.search(r"^start-report: 2 ranks on 2 nodes.*\n((?:  .*\n)+)", output, re.MULTILINE)
    assert report and len(report[1].splitlines()) == 9, output
    phases = {line[2:16].strip(): line[16:] for line in report[1].splitlines()}
    for name in ("launch", "container", "interpreter", "imports", "to first step"):
        assert re.match(r"[0-9.]+/[0-9.]+/[0-9.]+(;|$)", phases[name]), output
    assert "packages: torch " in phases["imports"] and phases["GPUs"] == "utilisation unknown, energy unknown", output
    assert not list((torch_jobs.directory / "caches").iterdir())
    merged = profile(torch_jobs, number, "-o", "both.json")
    assert [(one["rank"], one["profiler"]) for one in merged["ranks"]] == [(0, "torch"), (1, "torch")], merged
    events = json.loads((torch_jobs.directory / "both.json").read_text())["traceEvents"]
    steps = {
        (one["pid"], one["ts"]) for one in events if one["name"].startswith("Optimizer.step#") and one["ph"] == "X"
    }
    assert merged["aligned"] and len(steps) >= 6 and {rank for rank, _ in steps} == {0, 1}
