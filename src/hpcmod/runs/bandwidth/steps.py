"""Run a benchmark as steps of the current allocation, with the image's own libraries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcmod.compat import find_image_mpi
from hpcmod.core.errors import HpcmodError
from hpcmod.images import Sif
from hpcmod.jobs import make_container
from hpcmod.jobs.values.allocation import Allocation
from hpcmod.jobs.values.inside import fit_allocation, make_inner_step
from hpcmod.jobs.values.request import JobRequest, Ranks
from hpcmod.jobs.values.slurm import step_in_job
from hpcmod.machine.values.site import BY_TASKS, Site
from hpcmod.modules import Installed
from hpcmod.runs.values.bandwidth.measurement import PROGRAMS

NCCL_TESTS, TORCH = "nccl-tests", "torch"
LIBRARIES = (NCCL_TESTS, TORCH)
"""What measures: the programs of nccl-tests or rccl-tests in the image, or our program with the image's PyTorch."""

SHOWN = "BANDWIDTH_PROGRAM"
"""Written instead of the text of our program where a command is shown."""

_FOR_GPUS = (1 << 20, 8 << 30)
_FOR_CPUS = (1 << 10, 16 << 20)


def bandwidth_program() -> str:
    """Return the program of `hpcmod bench` that runs on each rank, with the image's Python."""
    return Path(__file__).with_name("ranks.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class BenchmarkRequest:
    """What to measure on each number of nodes."""

    library: str
    """One of LIBRARIES; empty: nccl-tests where there are GPUs and the image has it, else torch."""
    collectives: tuple[str, ...]
    sizes: tuple[int, int] | None
    """First and last size in bytes; None: what fits the devices."""
    repeats: int
    ranks_per_node: int
    """0: one per GPU."""
    gpus: int
    """Per node; -1: all."""
    node_type: str


@dataclass(frozen=True)
class BenchmarkStep:
    """One step of a benchmark."""

    nodes: int
    ranks: int
    argv: tuple[str, ...]

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the arguments for people: with SHOWN in the place of our program."""
        program = bandwidth_program()
        return tuple(SHOWN if word == program else word for word in self.argv)


def has_gpus(request: BenchmarkRequest, site: Site) -> bool:
    """Return whether the benchmark uses GPUs."""
    return request.gpus != 0 and any(node.gpus for node in site.nodes.types)


def choose_library(request: BenchmarkRequest, site: Site, container: Installed) -> str:
    """Return the library to measure with, one of LIBRARIES."""
    if request.library or not has_gpus(request, site):
        return request.library or TORCH
    needed = {name for name, collective in PROGRAMS.items() if collective in request.collectives}
    try:
        names = Sif(Path(container.image.path)).commands().names
    except (HpcmodError, OSError):
        return TORCH  # the step reports what is wrong with the image
    return NCCL_TESTS if needed <= names else TORCH


def make_benchmark_steps(
    request: BenchmarkRequest, nodes: int, site: Site, allocation: Allocation, container: Installed
) -> Iterator[BenchmarkStep]:
    """Yield the steps that measure on a number of nodes, as `hpcmod launch` would start them.

    `request`: With the library that was chosen.

    Raises BadInputError if the request does not fit the machine.
    """
    allocation = allocation._replace(nodes=nodes, tasks=0)  # without GPUs one rank a node, whatever its tasks
    mpi = find_image_mpi(container, site, os.environ) if request.library == NCCL_TESTS else ""
    image = make_container(Path(container.image.path), site, mpi)
    ranks = Ranks(per_node=request.ranks_per_node, gpus=request.gpus, launcher=BY_TASKS)
    for program in _make_programs(request, site):
        job = JobRequest(program=program, container=image, node_type=request.node_type, ranks=ranks)
        _, step, number = make_inner_step(fit_allocation(job, allocation, site), allocation, site)
        command = step_in_job(step.command, tasks=number)
        argv = (*command, str(container.program), *step.container[1:], "--", *step.program)
        yield BenchmarkStep(nodes, number, argv)


def _make_programs(request: BenchmarkRequest, site: Site) -> Iterator[tuple[str, ...]]:
    """Yield the programs to run: those of nccl-tests measure one collective each, ours all of them."""
    first, last = request.sizes or (_FOR_GPUS if has_gpus(request, site) else _FOR_CPUS)
    if request.library == NCCL_TESTS:
        program_of = {collective: program for program, collective in PROGRAMS.items()}
        for _ in range(request.repeats):
            for collective in request.collectives:
                yield (program_of[collective], "-b", str(first), "-e", str(last), "-f", "2")
    else:
        yield ("-c", bandwidth_program(), *map(str, (first, last, request.repeats)), *request.collectives)
