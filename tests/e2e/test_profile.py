"""`hpcmod job --report` and `hpcmod profile` with real torch.distributed over Gloo on two nodes."""

from __future__ import annotations

import json
import re
import time

import pytest

from tests.e2e.conftest import Jobs
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

PROGRAM = CHECKOUT / "tests" / "e2e" / "profiled.py"


def test_a_job_is_profiled_and_reports_how_long_it_took_to_start(torch_jobs: Jobs) -> None:
    (torch_jobs.directory / "train.py").write_text(PROGRAM.read_text())
    asked = ("-N", "2", "-p", "small-g", "--gpus", "1", "--report", "--profile-rank", "0,1", "--profiler", "torch")
    number = torch_jobs.submit(*asked, "--", "train.py", "wait")
    while torch_jobs.output(number).count("trained") < 2:
        time.sleep(0.1)
        assert torch_jobs.state(number) in ("PENDING", "RUNNING"), torch_jobs.output(number)
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
    for rank in (0, 1):
        trace = json.loads((torch_jobs.directory / f"hpcmod-profile-{number}-rank{rank}.json").read_text())
        steps = [event for event in trace["traceEvents"] if event.get("name", "").startswith("Optimizer.step#")]
        assert len({event["ts"] for event in steps}) >= 3 and trace["distributedInfo"]["rank"] == rank
