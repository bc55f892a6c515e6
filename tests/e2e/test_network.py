"""`hpcmod check --network` on two virtual nodes, with real torch over Gloo.

NCCL, RCCL and a fast network are not available here; tests/logs has their logs.
"""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.e2e.conftest import Jobs, processes_of
from tests.stack import CHECKOUT, Done

pytestmark = pytest.mark.stack

PAGE = (CHECKOUT / "docs" / "how-to" / "check-nodes.md").read_text()

SOCKETS = """\
NCCL INFO NET/Plugin: No plugin found (librccl-net.so)
NCCL INFO Using network Socket
"""


def verify(jobs: Jobs, *words: str, **env: str) -> Done:
    hpcmod = jobs.machine.stack.python.parent / "hpcmod"
    return jobs(hpcmod, "check", *words, "--network", "--timeout", "10", "--json", **env)


def test_the_commands_of_the_page_tell_which_network_is_used(torch_jobs: Jobs) -> None:
    (run,) = re.findall(r"^ *\$ hpcmod check (PyTorch --network .*)$", PAGE, re.MULTILINE)
    done = verify(torch_jobs, *shlex.split(run))
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    ranks = [rank for rank in answer["ranks"] if rank["library"] == "gloo"]
    assert [rank["error"] for rank in ranks] == ["", ""]
    assert len({rank["host"] for rank in ranks}) == 2
    levels = {finding["rule"]: finding["level"] for finding in answer["findings"]}
    assert (levels["gloo"], levels["network"]) == ("ok", "unknown")
    assert processes_of("hpcmod-allreduce") == []
    (torch_jobs.directory / "hpcmod-debug-4711").mkdir()
    (torch_jobs.directory / "hpcmod-debug-4711" / "nccl-rank0.log").write_text(SOCKETS)
    done = torch_jobs("hpcmod", "why", "hpcmod-debug-4711")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "TCP sockets" in done.stdout and "this machine has OFI through cxi" in done.stdout
