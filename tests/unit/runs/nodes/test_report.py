"""Checking the nodes of an allocation with the real node program; small scripts replace srun and scontrol."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hpcmod.core.errors import LackingError
from hpcmod.jobs.values.allocation import Allocation
from hpcmod.machine.values.site import NodeType, Site
from hpcmod.machine.values.tables import Network
from hpcmod.modules.values.question import make_question
from hpcmod.runs.nodes.report import check_nodes, find_ranks
from tests.programs import make_program

pytestmark = pytest.mark.slow

SRUN = """#!/bin/sh
# A fake srun on ANSWERING nodes, all of them this machine.
while :; do case $1 in -*) shift ;; *) break ;; esac; done
rank=0
for node in $ANSWERING; do SLURM_PROCID=$rank SLURM_LOCALID=0 SLURMD_NODENAME=$node "$@"; rank=$((rank + 1)); done
"""
SCONTROL = "#!/bin/sh\nprintf 'nid001\\nnid002\\n'\n"
TWO = Allocation(nodes=2, partition="", gpus=0, cpus=0, tasks=0, in_task=False)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        make_program(tmp_path / name, text)
    (tmp_path / "python3").symlink_to(sys.executable)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ANSWERING": "nid001 nid002"}


def test_nodes_are_compared_with_the_profile(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "image.sif").write_bytes(b"image")
    question = make_question(Site("x", network=Network(interfaces=("hsn0",))), [NodeType("big", cores=100_000)], ())
    question["image"] = {"path": str(tmp_path / "image.sif"), "size": 5, "sha256": "0" * 64, "whole": False}
    report = check_nodes(TWO, question, environ)
    assert [node.name for node in report.nodes] == ["nid001", "nid002"]
    rules = {one.rule for one in report.findings if one.subject == "all nodes" and one.level == "fail"}
    assert rules == {"cores", "image", "interface"}


def test_a_node_that_does_not_answer_is_named(environ: dict[str, str]) -> None:
    report = check_nodes(TWO, make_question(Site("x"), [], ()), {**environ, "ANSWERING": "nid002"})
    assert report.missing == ("nid001",)
    assert [(one.subject, one.rule) for one in report.findings if one.level == "fail"] == [("nid001", "answer")]


def test_without_any_answer_the_scheduler_is_quoted(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "srun").write_text("#!/bin/sh\necho 'srun: error: Unable to create step' >&2\nexit 1\n")
    with pytest.raises(LackingError, match="Unable to create step"):
        check_nodes(TWO, make_question(Site("x"), [], ()), environ)
    with pytest.raises(LackingError, match="srun"):
        check_nodes(TWO, make_question(Site("x"), [], ()), {"PATH": str(tmp_path / "empty")})


def test_ranks_say_where_they_run(environ: dict[str, str]) -> None:
    places, findings = find_ranks(["srun"], node=NodeType("any"), ranks=1, interfaces=(), environ=environ)
    assert [(place.rank, place.host, place.bound) for place in places] == [(0, "nid001", False), (1, "nid002", False)]
    assert findings == []


def test_the_hosts_python_runs_and_not_the_wrapper_of_a_loaded_module(environ: dict[str, str], tmp_path: Path) -> None:
    wrapper = make_program(tmp_path / "module" / "bin" / "python3", "#!/bin/sh\nexit 1\n")
    loaded = {"CONTAINERROOT": f"{tmp_path}/module", "PATH": f"{wrapper.parent}:{environ['PATH']}"}
    assert len(check_nodes(TWO, make_question(Site("x"), [], ()), {**environ, **loaded}).nodes) == 2
