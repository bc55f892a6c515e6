"""The command `hpcmod launch`: run one step in the current allocation, as a batch script of hpcmod would."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from hpcmod.core.cli.arguments import with_options
from hpcmod.core.cli.flags import nested, with_flags
from hpcmod.core.cli.output import print_data, tell
from hpcmod.core.errors import BadInputError, LackingError, NotFoundError
from hpcmod.core.process import become
from hpcmod.core.text.quote import sh_word
from hpcmod.jobs.cli.options import make_ranks
from hpcmod.jobs.cli.run_options import (
    RUN_OPTIONS,
    CommandOfProgram,
    RunFlags,
    find_own_mpi,
    make_container,
)
from hpcmod.jobs.values.allocation import Allocation, read_allocation
from hpcmod.jobs.values.inside import fit_allocation, make_inner_step
from hpcmod.jobs.values.request import JobRequest, check_request
from hpcmod.jobs.values.review import review_job
from hpcmod.jobs.values.slurm import check_scheduler, step_in_job
from hpcmod.jobs.values.step import Step
from hpcmod.machine import find_machine
from hpcmod.machine.values.site import Site
from hpcmod.modules import find_installed, module_trees, read_record, site_of


@dataclass(frozen=True)
class LaunchFlags:
    """Arguments and options of `hpcmod launch`."""

    run: RunFlags = field(metadata=nested(RunFlags))
    site: str | None
    program: tuple[str, ...]
    dry_run: bool


@click.command(cls=CommandOfProgram)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--dry-run", is_flag=True, help="Print the srun command; run nothing.")
@with_options(*RUN_OPTIONS)
@with_flags(LaunchFlags)
def launch(flags: LaunchFlags) -> None:
    """Run a program in your current Slurm allocation.

    Load the module first. PROGRAM is a Python file with its arguments, or a command of the image.
    Without GPUs, each node gets as many ranks as the allocation has tasks there.

    \b
    Examples:
      hpcmod launch -- train.py --epochs 3
      hpcmod launch --dry-run --launcher torchrun -- train.py
    """
    from hpcmod.jobs.text.jobscript import make_argv, render_step

    here = find_machine(None, os.environ, flag=flags.site).site
    record = read_record(Path(os.environ.get("CONTAINERROOT") or os.devnull))
    site = site_of(record, here, os.environ, asked=flags.site, tell=tell)
    _check_program(flags.program)
    check_scheduler(site)
    allocation = read_allocation(os.environ)
    if allocation is None:
        raise LackingError(
            "not inside a Slurm allocation",
            "Get one with salloc (`hpcmod job NAME --salloc` prints the command), or use hpcmod job --submit.",
        )
    image = os.environ.get("SIF", "")
    request = _make_request(flags, site, allocation, image, own_mpi=find_own_mpi(record, os.environ))
    step = _make_step(request, site, allocation)
    if not image and not flags.dry_run:
        raise NotFoundError("SIF is not set: no container module is loaded", "module load NAME/VERSION")
    if flags.run.stage:
        image = _stage(flags, request, site, image)
    if flags.dry_run:
        print_data(render_step(step))
        return
    become(make_argv(step, image=image, runscripts=os.environ.get("RUNSCRIPTS", "")))


def _check_program(program: tuple[str, ...]) -> None:
    """Check that the program is not the name of a container, as `hpcmod job` takes it."""
    name = program[0]
    installed = next(find_installed(module_trees(os.environ), name.partition("/")[0]), None)
    if installed and not Path(name).exists() and name in (installed.name, installed.module):
        rest = " ".join(map(sh_word, program[1:])) or "PROGRAM"
        raise BadInputError(
            f"{name} is a container, and launch runs a program in the one that is loaded",
            f"module load {name}; hpcmod launch [OPTIONS] -- {rest}",
        )


def _stage(flags: LaunchFlags, request: JobRequest, site: Site, image: str) -> str:
    """Stage the image as the options ask for, say why, and return its path; a dry run stages nothing."""
    from hpcmod.jobs.cli.staging import stage_image, with_staging

    request = with_staging(request, flags.run.stage or "off", site, Path(image) if image else None)
    for line in request.staging.why:
        tell(line)
    return stage_image(request, site, Path(image)) if request.staging.place and not flags.dry_run else image


def _make_request(flags: LaunchFlags, site: Site, allocation: Allocation, image: str, *, own_mpi: str) -> JobRequest:
    from hpcmod.compat import read_image_mpi

    sif = Path(image) if image else None
    mpi = own_mpi or (read_image_mpi(sif, site, os.environ) if sif else "")
    request = JobRequest(
        program=flags.program,
        container=make_container(sif, site, mpi)._replace(binds=flags.run.binds),
        node_type=flags.run.node_type,
        ranks=make_ranks(flags.run),
    )
    return fit_allocation(request, allocation, site)


def _make_step(request: JobRequest, site: Site, allocation: Allocation) -> Step:
    """Return the step of a request in the current allocation, and report what looks wrong."""
    check_request(request)
    layout, step, ranks = make_inner_step(request, allocation, site)
    for note in review_job(request, site, layout):
        tell(note)
    if allocation.in_task:  # that step holds all resources, so another would wait forever
        tell(f"inside an {step.command[0]} step: the new step shares its CPUs and GPUs.")
    if allocation.in_task or allocation.tasks not in (0, ranks):
        step = replace(step, command=step_in_job(step.command, tasks=ranks, overlap=allocation.in_task))
    return step
