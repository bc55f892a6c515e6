"""`hpcmod check` and `hpcmod job --check` on four virtual nodes with planted faults, and the commands of the page.

tests/planted/python3, before the real one on PATH, plants a node's fault: in separate namespaces, it hides a bind path,
fills a file system, removes the network interface, replaces the module's image or restricts the cores. So the node
program sees a real fault. Only the wrong clock is simulated.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Jobs, must, processes_of
from tests.planted.machine import plant_on_nodes
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

PAGE = CHECKOUT / "docs" / "how-to" / "check-nodes.md"

KINDS = {
    "bind": "hidden:{top}/bound",
    "shm": "full:/dev/shm:1m",
    "local": "full:{top}/local:1m",
    "image": "other:{top}/other.sif:{image}",
    "interface": "net:none",
    "mask": "mask:0",
    "clock": "ahead:100",
    "silent": "silent",
}
"""Faults by symptom, named as in tests/planted/fault.sh."""


@dataclass(frozen=True)
class Checked:
    """The virtual machine with a profile that matches its nodes, and with faults per node."""

    jobs: Jobs
    planting: dict[str, str]
    """Environment that plants the faults."""
    image: str

    def environment(self, faults: str = "") -> dict[str, str]:
        """Return the environment with faults, such as "nid002=shm any=bind"; `first` is the first node of a job."""
        pairs = [fault.split("=") for fault in faults.split()]
        named = " ".join(f"{node}={KINDS[kind]}" for node, kind in pairs)
        return {**self.planting, "FAULTS": named.format(top=self.jobs.directory, image=self.image)}

    @property
    def site(self) -> tuple[str, str]:
        """Return the option that chooses the profile of these nodes, since the module's would decide."""
        return "--site", self.planting["HPCMOD_SITE"]

    def check(self, *words: str, faults: str = "") -> tuple[int, dict[str, Any]]:
        done = self.jobs("hpcmod", "check", *words, *self.site, "--json", **self.environment(faults))
        return done.returncode, json.loads(done.stdout or "{}") or {"stderr": done.stderr}


def failed(printed: dict[str, Any]) -> list[tuple[str, str]]:
    assert "findings" in printed, printed
    return sorted({(one["subject"], one["rule"]) for one in printed["findings"] if one["level"] == "fail"})


@pytest.fixture
def checked(tiny_jobs: Jobs) -> Iterator[Checked]:
    top = tiny_jobs.directory
    planting = plant_on_nodes(top, tiny_jobs.machine.stack.environment(Path.home())["PATH"])
    (top / "other.sif").write_bytes(b"not the image")
    image = must(tiny_jobs("bash", "-c", "module load PyTorch && echo $SIF")).stdout.strip()
    yield Checked(tiny_jobs, planting, image)
    assert processes_of(str(top)) == []


def page_commands() -> list[list[str]]:
    """Return the commands of the page about nodes, without the `$` prompt."""
    nodes = PAGE.read_text().partition("## Prove that a container uses the fast network")[0]
    return [shlex.split(line) for line in re.findall(r"^ *\$ (hpcmod .*)$", nodes, re.MULTILINE)]


PLANTED = [
    "nid001=bind nid002=shm nid003=interface nid004=image",
    "nid001=mask nid002=local nid003=clock nid004=silent",
]


@pytest.mark.parametrize("faults", PLANTED)
def test_every_planted_fault_is_found_on_its_node_and_no_other(checked: Checked, faults: str) -> None:
    status, printed = checked.check("PyTorch", "-N", "4", "-p", "standard", faults=faults)
    planted = [fault.split("=") for fault in faults.split()]
    kinds = {"shm": "space", "local": "space", "silent": "answer"}
    assert (status, failed(printed)) == (1, sorted((node, kinds.get(fault, fault)) for node, fault in planted))


def test_the_commands_of_the_page_pass_on_healthy_nodes(checked: Checked) -> None:
    commands = page_commands()
    assert [words[1] for words in commands] == ["check", "check", "check", "job"]
    first, _, affinity, _ = commands
    done = must(checked.jobs(*first, *checked.site, **checked.environment()))
    assert len(set(re.findall(r"^(nid00\d)  (?:ok|warn) ", done.stdout, re.MULTILINE))) == 2
    warned = re.findall(r"^warn +\w+: (.*)$", done.stdout, re.MULTILINE)
    busy = re.compile("a process gets|computes at")  # warnings that a busy machine causes
    assert [text for text in warned if not busy.match(text)] == []
    done = must(checked.jobs(*affinity, *checked.site, **checked.environment()))
    assert re.findall(r"^(\d)  nid00\d  \d", done.stdout, re.MULTILINE) == ["0", "1"]


def test_a_job_with_a_bad_node_ends_before_its_program_starts_and_runs_without_the_node(checked: Checked) -> None:
    (checked.jobs.directory / "train.py").write_text("print('trained')\n")
    *_, job = page_commands()
    *words, _, program = ["-p", "batch", *job[3:]]  # a partition that is not in the module's profile
    again = [*words[:-3], "--check", "resubmit", words[-1]]
    number = must(checked.jobs(*job[:3], *again, "--", program, **checked.environment("first=shm"))).stdout.strip()
    checked.jobs.wait(number)
    broken = checked.jobs.output(number)
    assert "trained" not in broken and broken.count("/dev/shm is full") == 1
    assert re.search(r"1 of 2 nodes should not be used; to leave them out: sbatch --exclude=nid00\d\n", broken)
    assert checked.jobs.state(number) == "FAILED"
    new = re.search(r"Submitted batch job (\d+)", broken)
    assert new
    checked.jobs.wait(new[1])
    healthy = checked.jobs.output(new[1])
    assert "check-nodes: all 2 nodes can be used" in healthy and "trained" in healthy
    nodes = must(checked.jobs("scontrol", "show", "job", new[1])).stdout
    assert re.search(r" ExcNodeList=nid00\d\b", nodes)
