"""HPCMOD_TIMING and `hpcmod profile` with real torch.distributed over Gloo on two nodes."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from tests.e2e.conftest import Jobs
from tests.stack import CHECKOUT
from tests.walkthroughs import blocks

pytestmark = pytest.mark.stack

PROGRAM = CHECKOUT / "tests" / "e2e" / "profiled.py"


def profile(jobs: Jobs, *words: str) -> dict[str, Any]:
    """Return what `hpcmod profile` merged."""
    found: dict[str, Any] = json.loads(jobs.hpcmod("profile", "--json", *words).stdout)
    return found


COMMANDS = [shlex.split(line)[1:] for block in blocks("profile", "console") for line in block.splitlines()]
"""Of the page docs/how-to/profile.md: submit with timing, submit with a profiler, and merge."""


def test_the_commands_of_the_page_run_on_virtual_nodes(torch_jobs: Jobs) -> None:
    """One job for all of them: it is measured, and profiled with torch.profiler."""
    written = [" ".join(words) for words in COMMANDS]
    assert [line.count("-N 2") for line in written] == [1, 1, 0]
    measured, profiled, merge = [line.split() for line in written]
    (torch_jobs.directory / "train.py").write_text(PROGRAM.read_text())
    here = ["-p", "small-g", "--gpus", "1"]
    timing = ["--env", "HPCMOD_TIMING=1"]
    assert [word for word in measured if word not in timing] == [
        word for word in profiled if not word.startswith(("--env", "HPCMOD_PROFILE"))
    ]
    number = torch_jobs.hpcmod(profiled[0], *here, *timing, *profiled[1:], "wait").stdout.strip()
    (torch_jobs.directory / "go").touch()
    torch_jobs.wait(number)
    output = torch_jobs.output(number)
    assert torch_jobs.state(number) == "COMPLETED", output
    times = "[0-9.]+/[0-9.]+/[0-9.]+"
    phases = rf"container {times}, interpreter {times}, imports {times} \(torch .*\), to first step {times}"
    assert re.search(rf"^hpcmod: start of 1 rank on nid00\d, seconds min/median/max: {phases}$", output, re.M), output
    assert not list((torch_jobs.directory / "caches").iterdir())
    merged = profile(torch_jobs, *(number if word == "4711" else word for word in merge[1:]), "-o", "both.json")
    assert [(one["rank"], one["profiler"]) for one in merged["ranks"]] == [(0, "torch"), (1, "torch")], merged
    events = json.loads((torch_jobs.directory / "both.json").read_text())["traceEvents"]
    steps = {
        (one["pid"], one["ts"]) for one in events if one["name"].startswith("Optimizer.step#") and one["ph"] == "X"
    }
    assert merged["aligned"] and len(steps) >= 6 and {rank for rank, _ in steps} == {0, 1}
