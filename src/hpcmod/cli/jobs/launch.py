"""The command `hpcmod launch`: run one srun in the current allocation, as a batch script of hpcmod would."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import click

from hpcmod import machine
from hpcmod.cli.flags import with_flags
from hpcmod.cli.jobs.run_options import CommandOfProgram, RunFlags, of_a_run, runtime_name, script_options
from hpcmod.cli.output import print_data, tell
from hpcmod.errors import LackingError, NotFoundError
from hpcmod.model.jobs.layout import Layout, make_layout
from hpcmod.model.jobs.request import JobRequest, check_request
from hpcmod.model.jobs.review import review_job
from hpcmod.model.jobs.step import make_step
from hpcmod.model.site import Site
from hpcmod.process import become

_RESERVED_STEPS = 4294967280


@dataclass(frozen=True)
class LaunchFlags(RunFlags):
    """Arguments and options of `hpcmod launch`."""

    program: tuple[str, ...]
    dry_run: bool


@click.command(cls=CommandOfProgram)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--dry-run", is_flag=True, help="Print the srun command; run nothing.")
@of_a_run
@with_flags(LaunchFlags)
def launch(flags: LaunchFlags) -> None:
    """Run a program in your current Slurm allocation.

    Load the module first. PROGRAM is a Python file with its arguments, or a command of the image.

    \b
    Examples:
      hpcmod launch -- train.py --epochs 3
      hpcmod launch --dry-run --launcher torchrun -- train.py
    """
    from hpcmod.check.image_mpi import read_image_mpi
    from hpcmod.render.jobscript import make_argv, render_step

    profile = machine.load_site(flags.site, {} if flags.site else os.environ)
    image = os.environ.get("SIF", "")
    image_mpi = read_image_mpi(Path(image), profile, os.environ) if image else ""
    request = _launch_request(flags, profile, image_mpi=image_mpi)
    check_request(request)
    layout = _fit(make_layout(request, profile))
    step = make_step(request, profile, layout)
    for note in review_job(request, profile, layout):
        tell(note)
    if _is_in_step():
        tell("inside an srun step: the new step shares its CPUs and GPUs (--overlap).")
        # srun would use SLURM_NTASKS of the enclosing step as the number of tasks
        step = replace(step, srun=("--overlap", f"--ntasks={request.nodes * layout.tasks}", *step.srun))
    if flags.dry_run:
        print_data(render_step(step))
        return
    if not image:
        raise NotFoundError("SIF is not set: no container module is loaded", "module load NAME/VERSION")
    become(make_argv(step, image=image))


def _launch_request(flags: LaunchFlags, site: Site, *, image_mpi: str) -> JobRequest:
    nodes = os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES", "")
    if not os.environ.get("SLURM_JOB_ID") or not nodes.isdigit():
        raise LackingError(
            "not inside a Slurm allocation",
            "Get one with salloc (`hpcmod job NAME --salloc` prints the command), or use hpcmod job --submit.",
        )
    partition = os.environ.get("SLURM_JOB_PARTITION", "")
    return JobRequest(
        program=flags.program,
        nodes=int(nodes),
        ranks_per_node=flags.ranks_per_node,
        gpus=_gpus_of_allocation(int(nodes), site) if flags.gpus < 0 else flags.gpus,
        cpus=-1 if partition in site.job.exclusive else 0,
        node_type=flags.node_type,
        launcher=flags.launcher or "",
        options=(("partition", partition),) if partition else (),
        script_options=script_options(flags),
        binds=flags.binds,
        mpi=flags.mpi,
        image_mpi=image_mpi,
        runtime=runtime_name(),
    )


def _gpus_of_allocation(nodes: int, site: Site) -> int:
    """Return the number of GPUs per node of the allocation; -1 means as many as the profile says."""
    each = _number("SLURM_GPUS_PER_NODE") or _number("SLURM_GPUS_ON_NODE")
    unsaid = -1 if any(node.gpus for node in site.node_types) else 0
    return each or _number("SLURM_GPUS") // nodes or unsaid


def _fit(layout: Layout) -> Layout:
    """Divide the CPUs per node of the allocation among the tasks, whose number may differ from the allocation's."""
    cpus = _number("SLURM_CPUS_PER_TASK") * (_number("SLURM_NTASKS_PER_NODE") or 1)
    return replace(layout, cpus=cpus // layout.tasks) if cpus else layout


def _is_in_step() -> bool:
    """Return whether srun started this shell; such a step holds all resources, so another srun would wait forever.

    The steps of batch scripts and of salloc hold no resources; their numbers are in the reserved range (slurm.h).
    """
    step = os.environ.get("SLURM_STEP_ID", "")
    return step.isdigit() and int(step) < _RESERVED_STEPS


def _number(variable: str) -> int:
    """Return the number in a Slurm variable, which may follow a type, as in a100:4; 0 if there is no number."""
    last = os.environ.get(variable, "").rpartition(":")[2]
    return int(last) if last.isdigit() else 0
