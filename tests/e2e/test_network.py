"""`hpcmod check --network` on two virtual nodes, with real torch over Gloo and faults planted in its environment.

NCCL, RCCL and a fast network are not available here; tests/logs has their logs.
"""

from __future__ import annotations

import json
import os
import re
import shlex

import pytest

from tests.e2e.conftest import Jobs
from tests.stack import CHECKOUT, Done

pytestmark = pytest.mark.stack

PAGE = (CHECKOUT / "docs" / "how-to" / "check-nodes.md").read_text()

SOCKETS = """\
NCCL INFO NET/Plugin: No plugin found (librccl-net.so)
NCCL INFO Using network Socket
"""

THOROUGH = os.environ.get("HPCMOD_THOROUGH") == "1"

FAULTS = [
    ({"GLOO_SOCKET_IFNAME": "nosuch0"}, "interface-missing", "no such network interface: GLOO_SOCKET_IFNAME=nosuch0"),
    ({"GLOO_SOCKET_IFNAME": "lo"}, "gloo-loopback", "which other nodes cannot reach"),
    ({"MASTER_ADDR": "192.0.2.1"}, "master-unreachable", "cannot reach rank 0"),
    ({"MASTER_ADDR": "no-such-host.invalid"}, "master-unknown", "not the name of a host"),
    ({"MASTER_PORT": "80"}, "port-privileged", "below 1024"),
    ({"WORLD_SIZE": "3"}, "ranks", "WORLD_SIZE"),
]
"""Exported variables, the rule that must find the fault, part of its message. Slow, so only with HPCMOD_THOROUGH=1."""


def verify(jobs: Jobs, *words: str, **env: str) -> Done:
    hpcmod = jobs.machine.stack.python.parent / "hpcmod"
    return jobs(hpcmod, "check", *words, "--network", "--timeout", "10", "--json", **env)


@pytest.mark.parametrize("nodes", [2, 4] if THOROUGH else [2])  # two is the command's default
def test_the_commands_of_the_page_tell_which_network_is_used(torch_jobs: Jobs, nodes: int) -> None:
    (run,) = re.findall(r"^ *\$ hpcmod check (PyTorch --network .*)$", PAGE, re.MULTILINE)
    done = verify(torch_jobs, *shlex.split(run), *(["-N", str(nodes)] if nodes != 2 else []))
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    ranks = [rank for rank in answer["ranks"] if rank["library"] == "gloo"]
    assert [rank["error"] for rank in ranks] == [""] * nodes
    assert len({rank["host"] for rank in ranks}) == nodes
    levels = {finding["rule"]: finding["level"] for finding in answer["findings"]}
    assert (levels["gloo"], levels["network"]) == ("ok", "unknown")
    assert torch_jobs.processes("hpcmod-allreduce") == []
    (torch_jobs.directory / "hpcmod-debug-4711").mkdir()
    (torch_jobs.directory / "hpcmod-debug-4711" / "nccl-rank0.log").write_text(SOCKETS)
    done = torch_jobs("hpcmod", "why", "hpcmod-debug-4711")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "TCP sockets" in done.stdout and "this machine has OFI through cxi" in done.stdout


if THOROUGH:

    @pytest.mark.parametrize(("exported", "rule", "said"), FAULTS, ids=[rule for _, rule, _ in FAULTS])
    def test_names_a_planted_fault(torch_jobs: Jobs, exported: dict[str, str], rule: str, said: str) -> None:
        done = verify(torch_jobs, "PyTorch", "-p", "small-g", "--ranks-per-node", "1", **exported)
        found = {finding["rule"]: finding["found"] for finding in json.loads(done.stdout)["findings"]}
        assert said in found.get(rule, ""), done.stdout + done.stderr
        assert done.returncode == 1, done.stdout

    PORT = "23457"
    LISTEN = f"import socket, time; s = socket.socket(); s.bind(('', {PORT})); s.listen(); time.sleep(60)"

    def test_names_a_port_that_is_taken(torch_jobs: Jobs) -> None:
        check = "hpcmod check PyTorch --network --ranks-per-node 1 --timeout 10 --json"
        listen = f'srun --overlap -N1 -n1 -w $first_node python3 -c "{LISTEN}" & sleep 2'
        first = "first_node=$(scontrol show hostnames | head -n1)"
        script = f"{first}; {listen}; MASTER_PORT={PORT} {check}; kill %1; wait"
        done = torch_jobs("salloc", "-N2", "-p", "small-g", "-t", "5", "bash", "-c", script)
        assert "port-taken" in {finding["rule"] for finding in json.loads(done.stdout)["findings"]}, done.stderr
