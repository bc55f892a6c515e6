"""Steps of a benchmark: the library, the programs, and how srun starts them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.values.facts import ImageCommands
from hpcmod.images import Sif
from hpcmod.jobs.cli import run_options
from hpcmod.jobs.values.allocation import Allocation
from hpcmod.machine.machine import load_site
from hpcmod.modules.installed import Installed
from hpcmod.modules.values.install_record import InstalledImage, InstallRecord
from hpcmod.runs.bandwidth import steps
from hpcmod.runs.bandwidth.steps import (
    NCCL_TESTS,
    SHOWN,
    TORCH,
    BenchmarkRequest,
    BenchmarkStep,
    choose_library,
    make_benchmark_steps,
)

FOUND = Installed(
    "PyTorch/2.7.1", Path("/m/PyTorch/2.7.1.lua"), Path("/apps/PyTorch"), InstallRecord(image=InstalledImage("/i.sif"))
)
REQUEST = BenchmarkRequest(
    *("", ("all_reduce", "all_to_all"), None), repeats=2, ranks_per_node=0, gpus=-1, node_type=""
)
ALLOCATION = Allocation(nodes=4, partition="standard-g", gpus=8, cpus=0, tasks=0, in_task=False)


@pytest.fixture(autouse=True)
def image(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of the image; its MPI is not detected."""
    names: list[str] = []
    monkeypatch.setattr(Sif, "commands", lambda _: ImageCommands(frozenset(names), (), frozenset()))
    monkeypatch.setattr(steps, "find_image_mpi", lambda *_: "")
    monkeypatch.setattr(run_options, "find_runtime", lambda _: "/usr/bin/apptainer")
    return names


@pytest.mark.parametrize(
    ("names", "site", "gpus", "library"),
    [
        pytest.param(["all_reduce_perf", "alltoall_perf"], "lumi", -1, NCCL_TESTS, id="all are in the image"),
        pytest.param(["all_reduce_perf"], "lumi", -1, TORCH, id="one is missing"),
        pytest.param(["all_reduce_perf", "alltoall_perf"], "lumi", 0, TORCH, id="no GPUs wanted"),
        pytest.param(["all_reduce_perf", "alltoall_perf"], "generic", -1, TORCH, id="no GPUs here"),
    ],
)
def test_nccl_tests_are_used_where_they_and_gpus_are(
    image: list[str], names: list[str], site: str, gpus: int, library: str
) -> None:
    image += names
    assert choose_library(replace(REQUEST, gpus=gpus), load_site(site, {}), FOUND) == library
    assert choose_library(replace(REQUEST, library=TORCH), load_site(site, {}), FOUND) == TORCH


def made(request: BenchmarkRequest, site: str = "lumi", nodes: int = 2) -> list[BenchmarkStep]:
    return list(make_benchmark_steps(request, nodes, load_site(site, {}), ALLOCATION, FOUND))


def test_our_program_measures_everything_in_one_step() -> None:
    (step,) = made(replace(REQUEST, library=TORCH, sizes=(8, 64)))
    shown = " ".join(step.shown)
    assert shown.startswith("srun --overlap --ntasks=16 --export=ALL --kill-on-bad-exit=1 --nodes=2 ")
    assert " /apps/PyTorch/in-environment exec " in shown
    assert shown.endswith(f" -- conda-python-distributed -c {SHOWN} 8 64 2 all_reduce all_to_all")
    assert SHOWN not in step.argv and "class TorchRanks" in " ".join(step.argv)


def test_nccl_tests_run_once_for_each_collective_and_repeat() -> None:
    found = [" ".join(step.argv).rpartition(" -- ")[2] for step in made(replace(REQUEST, library=NCCL_TESTS))]
    sizes = "-b 1048576 -e 8589934592 -f 2"
    assert found == [f"run-in-env all_reduce_perf {sizes}", f"run-in-env alltoall_perf {sizes}"] * 2


def test_sizes_without_gpus_are_small() -> None:
    (step,) = made(replace(REQUEST, library=TORCH, ranks_per_node=2), "generic", nodes=1)
    assert step.shown[-5:-2] == ("1024", "16777216", "2")
