"""Binding a rank that no launcher bound; CPUs of this machine represent the cores near the GPUs of a node."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcmod.core.resources import runscript_files
from hpcmod.machine.machine import load_site
from hpcmod.machine.values.site import Nodes, NodeType, Site
from hpcmod.modules.text.runscript import render_runscripts
from hpcmod.modules.values.plan import RunscriptSettings
from tests.unit.runscripts.scripts import EIGHT, Rank, make_program, task

pytestmark = pytest.mark.slow

OURS = sorted(os.sched_getaffinity(0))
NEAR = ((OURS[0],), (OURS[-1],))
SHOW = """#!/bin/bash
while read -r name value; do [[ $name != Cpus_allowed_list: ]] || echo $value; done </proc/self/status
"""
GPU_NODE = NodeType("gpu", gpus=2, gpu_cores=NEAR, partitions=("gpu", "gpu-debug"))
CPU_NODE = NodeType("cpu", cores=64, partitions=("cpu",))


def bound_to(rank: Rank, env: dict[str, str]) -> str:
    ran = rank(env, "x.py")
    assert (ran.status, ran.stderr) == (0, "")
    return ran.stdout.strip()


@pytest.fixture
def bare(rank: Rank, tmp_path: Path) -> Rank:
    """A rank on a site whose first node type consists of CPUs of this machine."""
    make_program(tmp_path / "python-bin" / "python", SHOW)
    rank.scripts.change_site(nodes=Nodes((GPU_NODE, CPU_NODE)))
    return rank


def all_of_ours() -> str:
    return subprocess.run(["bash", "-c", SHOW], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("more", [{}, {"SLURM_JOB_PARTITION": "gpu-debug"}], ids=["the first type", "by partition"])
@pytest.mark.parametrize("number", [0, 1])
def test_an_unbound_rank_gets_the_cores_near_its_gpu(bare: Rank, number: int, more: dict[str, str]) -> None:
    assert bound_to(bare, task(number, (2, 2), **more)) == str(NEAR[number][0])


@pytest.mark.parametrize("mode", ["one", "all"])
@pytest.mark.parametrize("number", [0, 1])
def test_the_gpus_of_the_node_in_another_order_bring_their_cores(bare: Rank, number: int, mode: str) -> None:
    more = {"ROCR_VISIBLE_DEVICES": "1,0", "HPCMOD_GPUS_VISIBLE": mode}
    assert bound_to(bare, task(number, (2, 2), **more)) == str(NEAR[1 - number][0])


@pytest.mark.parametrize("number", [0, 1])
def test_gpus_that_the_scheduler_numbers_for_each_task_do_not_move_it(bare: Rank, number: int) -> None:
    assert bound_to(bare, task(number, (2, 2), ROCR_VISIBLE_DEVICES="0", SLURM_GPUS_ON_NODE="2")) == str(
        NEAR[number][0]
    )


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(task(0, (1,)), id="alone on the node"),
        pytest.param(task(1, (3,)), id="more ranks than GPUs"),
        pytest.param(task(1, (2,), HPCMOD_CPUS="all"), id="opted out"),
        pytest.param(task(1, (2,), SLURM_JOB_PARTITION="cpu"), id="a node type without GPUs"),
        pytest.param(task(1, (2,), SLURM_JOB_PARTITION="unknown"), id="a partition of nobody knows what"),
        pytest.param({}, id="the only rank"),
    ],
)
def test_other_ranks_keep_the_cpus_they_have(bare: Rank, env: dict[str, str]) -> None:
    assert bound_to(bare, env) == all_of_ours()


def test_a_rank_that_was_bound_is_left_unchanged(bare: Rank) -> None:
    bare.scripts.change_site(nodes=Nodes((GPU_NODE._replace(gpu_cores=((OURS[0],), (OURS[-1] + 1,))),)))
    assert bound_to(bare, task(0, (2,))) == all_of_ours(), "a core of the node is not open to it"


def test_without_taskset_nothing_is_bound(bare: Rank, tmp_path: Path) -> None:
    for name in ("mkdir", "ls", "bash"):
        (tmp_path / "python-bin" / name).symlink_to(f"/bin/{name}")
    bare.path = str(tmp_path / "python-bin")
    assert bound_to(bare, task(0, (2,))) == all_of_ours()


def test_an_invalid_word_is_refused(bare: Rank) -> None:
    ran = bare(task(0, (2,), HPCMOD_CPUS="some"), "x.py")
    assert ran.status == 2 and "HPCMOD_CPUS is 'some', expected near or all" in ran.stderr


LUMI = load_site("lumi", {})
OPEN = "1-7,9-15,17-23,25-31,33-39,41-47,49-55,57-63"
NEAR_ON_LUMI = ["49-55", "57-63", "17-23", "25-31", "1-7", "9-15", "33-39", "41-47"]
"""By GPU, from the masks in LUMI's own documents (0xfe000000000000, 0xfe00000000000000, 0xfe0000, ...)."""

CHOOSE = """
{script}
read_open_cpus() {{ REPLY=$HAS; }}
refuse() {{ exit 3; }}
_before=() _devices=$DEVICES _gpu=
choose_cpus
echo "${{_before[*]-}}"
"""


def chosen_on_lumi(has: str, **env: str) -> str:
    """Return the command that starts a rank on LUMI if it may use these CPUs, which need not exist on this machine."""
    settings = RunscriptSettings(module="x/1", sif_variable="SIFX", site=Site("x", nodes=LUMI.nodes))
    texts = render_runscripts(settings, templates=runscript_files())
    parts = (texts[f"lib/{name}.bash"] for name in ("settings", "common", "ranks", "node"))
    script = "\n".join(("set -u; declare -A _asked=()", *parts))
    given = {"PATH": "/usr/bin:/bin", "DEVICES": "1", "HAS": has, "SLURM_JOB_PARTITION": "standard-g", **env}
    words = CHOOSE.format(script=script)  # too long for an argument
    return subprocess.run(["bash"], input=words, env=given, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("local_rank", range(8))
def test_the_cores_of_lumi_are_those_of_the_printed_masks(local_rank: int) -> None:
    place = {"_place": str(local_rank), "LOCAL_WORLD_SIZE": "8"}
    assert chosen_on_lumi(OPEN, **place) == f"taskset -c {NEAR_ON_LUMI[local_rank]}"
    assert chosen_on_lumi("0-127", **place) == f"taskset -c {NEAR_ON_LUMI[local_rank]}"


@pytest.mark.parametrize(
    ("has", "more", "words"),
    [
        pytest.param("49-55", {}, "", id="bound to the right ones"),
        pytest.param("1-7,9-15", {}, "", id="bound to others, or a part of the node"),
        pytest.param(OPEN, {"LOCAL_WORLD_SIZE": "4", "DEVICES": "2"}, "taskset -c 17-23,25-31", id="two GPUs each"),
        pytest.param(OPEN, {"LOCAL_WORLD_SIZE": "4"}, "taskset -c 57-63", id="four ranks with one each"),
        pytest.param(OPEN, {"LOCAL_WORLD_SIZE": "8", "DEVICES": "8"}, "taskset -c 57-63", id="all see all"),
    ],
)
def test_ranks_of_lumi_share_the_node(has: str, more: dict[str, str], words: str) -> None:
    assert chosen_on_lumi(has, **{"_place": "1", "LOCAL_WORLD_SIZE": "8", **more}) == words


def test_explain_shows_the_cores(bare: Rank) -> None:
    told = bare(task(1, (2,), ROCR_VISIBLE_DEVICES=EIGHT), "--hpcmod-explain", "x.py").stdout
    assert told.endswith(f"\n# runs: taskset -c {NEAR[1][0]} python x.py\n")
