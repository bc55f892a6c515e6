"""Run a benchmark as steps of the current allocation, with the image's own libraries."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.check.fit import find_image_mpi
from hpcmod.errors import HpcmodError
from hpcmod.image.inspect.commands import read_commands
from hpcmod.install.installed import Installed
from hpcmod.install.runtime import find_runtime
from hpcmod.model.bandwidth.collectives import PROGRAMS
from hpcmod.model.bandwidth.startup import CONTAINER, IMPORT, READ, TASK
from hpcmod.model.jobs.allocation import Allocation
from hpcmod.model.jobs.layout import Layout, make_layout
from hpcmod.model.jobs.request import JobRequest
from hpcmod.model.jobs.slurm import step_in_job
from hpcmod.model.jobs.step import make_step
from hpcmod.model.site import BY_TASKS, Site
from hpcmod.process import Completed, run
from hpcmod.resources import bandwidth_program

NCCL_TESTS, TORCH, MPI = "nccl-tests", "torch", "mpi"
LIBRARIES = (NCCL_TESTS, TORCH, MPI)
"""What measures: the programs of nccl-tests or rccl-tests in the image; our program with its PyTorch, or its mpi4py."""

SHOWN = "BANDWIDTH_PROGRAM"
"""Written instead of the text of our program where a command is shown."""


@dataclass(frozen=True)
class BenchmarkRequest:
    """What to measure on each number of nodes."""

    library: str
    """One of LIBRARIES; empty: nccl-tests where there are GPUs and the image has it, else torch."""
    collectives: tuple[str, ...]
    """Empty: matrix products on each rank instead."""
    sizes: tuple[int, int] | None
    """First and last size in bytes; None: what fits the devices."""
    repeats: int
    iterations: int
    ranks_per_node: int
    """0: one per GPU."""
    gpus: int
    """Per node; -1: all."""
    node_type: str
    mpi: str = ""
    """How ranks and MPI connect, as srun names it; empty: as the image's MPI needs."""


@dataclass(frozen=True)
class BenchmarkStep:
    """One step of a benchmark."""

    nodes: int
    ranks: int
    argv: tuple[str, ...]
    starts: str = ""
    """What a step that is timed as a whole starts, as in hpcmod.model.bandwidth.startup; empty: it measures itself."""

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the arguments for people: with SHOWN in the place of our program."""
        program = bandwidth_program()
        return tuple(SHOWN if word == program else word for word in self.argv)


_FOR_GPUS = (1 << 20, 8 << 30)
_FOR_CPUS = (1 << 10, 16 << 20)


def has_gpus(request: BenchmarkRequest, site: Site) -> bool:
    """Return whether the benchmark uses GPUs."""
    return request.gpus != 0 and any(node.gpus for node in site.node_types)


def choose_library(request: BenchmarkRequest, site: Site, found: Installed) -> str:
    """Return the library to measure with, one of LIBRARIES."""
    if request.library or not request.collectives or not has_gpus(request, site):
        return request.library or TORCH
    wanted = {name for name, collective in PROGRAMS.items() if collective in request.collectives}
    try:
        names = read_commands(Path(found.of_image("path"))).names
    except (HpcmodError, OSError):
        return TORCH  # the step reports what is wrong with the image
    return NCCL_TESTS if wanted <= names else TORCH


def make_benchmark_steps(
    request: BenchmarkRequest, nodes: int, site: Site, allocation: Allocation, found: Installed
) -> Iterator[BenchmarkStep]:
    """Yield the steps that measure on a number of nodes, as `hpcmod launch` would start them.

    Parameters
    ----------
    request
        With the library that was chosen.

    Raises
    ------
    BadInputError
        If the request does not fit the machine.
    """
    start = _Start(request, nodes, site, allocation, found)
    for program in _make_programs(request, site):
        command, container, words = start.make(program)
        yield BenchmarkStep(nodes, start.ranks, (*command, *container, *words))


_READ = """
import sys, time
start, size = time.perf_counter(), 0
with open(sys.argv[1], "rb", buffering=0) as file:
    while block := file.read(1 << 24):
        size += len(block)
sys.stdout.write(f"read {size} bytes in {time.perf_counter() - start:.6f} s\\n")
"""


def make_startup_steps(
    request: BenchmarkRequest, nodes: int, site: Site, allocation: Allocation, found: Installed, data: Path | None
) -> Iterator[BenchmarkStep]:
    """Yield the steps that are timed: how a rank starts alone, then all of them together.

    Parameters
    ----------
    data
        A file that each rank reads; None for none.
    """
    binds = (str(data.parent),) if data else ()
    alone = _Start(replace(request, ranks_per_node=1), 1, site, allocation, found, binds)
    for start in (alone, _Start(request, nodes, site, allocation, found, binds)):
        for _ in range(request.repeats):
            command, container, importing = start.make(("-c", "import torch"))
            timed = [(TASK, (*command, "true")), (CONTAINER, (*command, *container, "true"))]
            timed.append((IMPORT, (*command, *container, *importing)))
            if data:
                *_, reading = start.make(("-c", _READ, str(data)))
                timed.append((READ, (*command, *container, *reading)))
            for what, argv in timed:
                yield BenchmarkStep(start.nodes, start.ranks, argv, what)


class _Start:
    """How ranks are started on some nodes of an allocation."""

    def __init__(
        self,
        request: BenchmarkRequest,
        nodes: int,
        site: Site,
        allocation: Allocation,
        found: Installed,
        binds: tuple[str, ...] = (),
    ) -> None:
        self.nodes, self._site, self._allocation, self._found = nodes, site, allocation, found
        partition = allocation.partition
        self._asked = JobRequest(
            program=("true",),
            nodes=nodes,
            ranks_per_node=request.ranks_per_node,
            gpus=request.gpus if request.gpus >= 0 or any(node.gpus for node in site.node_types) else 0,
            cpus=-1 if partition in site.job.exclusive else 0,
            node_type=request.node_type,
            launcher=BY_TASKS,
            options=(("partition", partition),) if partition else (),
            binds=binds,
            mpi=request.mpi,
            image_mpi=find_image_mpi(found, site, os.environ) if request.library != TORCH else "",
            runtime=Path(find_runtime(os.environ) or "singularity").name,
        )
        self._layout = _fit(make_layout(self._asked, site), allocation)
        self.ranks = nodes * self._layout.tasks

    def make(self, program: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return the words that start the tasks, those that start the container in each, and those of the program."""
        step = make_step(replace(self._asked, program=program), self._site, self._layout)
        command = step_in_job(step.command, tasks=self.ranks)
        return command, (str(self._found.program), *step.container[1:], "--"), step.program


def _fit(layout: Layout, allocation: Allocation) -> Layout:
    return layout._replace(cpus=allocation.cpus // layout.tasks) if allocation.cpus else layout


def _make_programs(request: BenchmarkRequest, site: Site) -> Iterator[tuple[str, ...]]:
    """Yield the programs to run: those of nccl-tests measure one collective each, ours all of them."""
    first, last = request.sizes or (_FOR_GPUS if has_gpus(request, site) else _FOR_CPUS)
    ours = ("-c", bandwidth_program())
    if not request.collectives:
        yield (*ours, "gemm", str(request.repeats))
    elif request.library == NCCL_TESTS:
        program_of = {collective: program for program, collective in PROGRAMS.items()}
        for _ in range(request.repeats):
            for collective in request.collectives:
                sizes = ("-b", str(first), "-e", str(last), "-f", "2")
                yield (program_of[collective], *sizes, "-n", str(request.iterations))
    else:
        counts = (first, last, request.repeats, request.iterations)
        yield (*ours, request.library, *map(str, counts), *request.collectives)


def run_benchmark_step(step: BenchmarkStep, environ: Mapping[str, str]) -> Completed:
    """Run a step to its end; it ends with this process."""
    return run(step.argv, env=environ, tied=True)
