"""The Slurm job that this process is in, as its environment describes it (sbatch(1), srun(1), salloc(1))."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

NODE_VARIABLE = "SLURMD_NODENAME"
"""Variable of a task: the name of its node."""

LOGIN_VARIABLE = "SLURM_SUBMIT_HOST"
"""Variable of a job: the host on which it was submitted."""

_OPTION_OF_STEP = re.compile(
    r"SLURM_(?:GPUS?_\w+|MEM_PER_\w+|TRES_PER_\w+|NTASKS_PER_\w+|CPUS_PER_(?:GPU|TASK)|CPU_BIND|DISTRIBUTION|HINT"
    r"|THREADS_PER_CORE|EXCLUSIVE|EXACT|TRES_PER_TASK)|SRUN_CPUS_PER_TASK"
)
"""Variables of sbatch and salloc that srun takes as its own options (srun(1), INPUT ENVIRONMENT VARIABLES)."""

_RESERVED_STEPS = 4294967280
"""From this number on, steps are those of batch scripts and of salloc, which hold no resources (slurm.h)."""


class Allocation(NamedTuple):
    """The job that this process is in."""

    nodes: int
    partition: str
    gpus: int
    """Per node; 0: none, or not known."""
    cpus: int
    """Per node; 0: not known."""
    tasks: int
    """Number that a step has in total unless it says otherwise; 0: not known."""
    in_task: bool
    """Whether srun started this process as a task of a step that holds the job's resources."""


class JobPlace(NamedTuple):
    """Job, node and login host of this process; each is empty if unknown."""

    job: str
    node: str
    """Name of this node; empty also if it is not one of the job's."""
    login: str
    """Host on which the job was submitted."""


def read_allocation(environ: Mapping[str, str]) -> Allocation | None:
    """Return the job that this process is in; None outside a job."""
    nodes = environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES", "")
    if not environ.get("SLURM_JOB_ID") or not nodes.isdigit():
        return None
    count, step = int(nodes), environ.get("SLURM_STEP_ID", "")
    gpus = _number(environ, "SLURM_GPUS_PER_NODE") or _number(environ, "SLURM_GPUS_ON_NODE")
    return Allocation(
        nodes=count,
        partition=environ.get("SLURM_JOB_PARTITION", ""),
        gpus=gpus or (_number(environ, "SLURM_GPUS") // count if count else 0),
        cpus=_number(environ, "SLURM_CPUS_PER_TASK") * (_number(environ, "SLURM_NTASKS_PER_NODE") or 1),
        tasks=_number(environ, "SLURM_NTASKS"),
        in_task=step.isdigit() and int(step) < _RESERVED_STEPS,
    )


def read_place(environ: Mapping[str, str]) -> JobPlace:
    """Return the place of this process in its job."""
    return JobPlace(
        job=environ.get("SLURM_JOB_ID", ""),
        node=environ.get(NODE_VARIABLE, ""),
        login=environ.get(LOGIN_VARIABLE, ""),
    )


def environment_of_step(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a step of our own: srun reads many options of sbatch from variables."""
    return {name: value for name, value in environ.items() if not _OPTION_OF_STEP.fullmatch(name)}


def is_of_job(variable: str) -> bool:
    """Return whether srun would take a variable as an option or as its job."""
    return variable.startswith("SLURM_") and not variable.startswith("SLURM_CONF")


def _number(environ: Mapping[str, str], variable: str) -> int:
    """Return the number in a variable, which may follow a type, as in a100:4; 0 without one."""
    return whole_number(environ.get(variable, "").rpartition(":")[2])


def whole_number(text: str) -> int:
    """Return the number that a string of at most 18 digits means, which is less than 2**63; 0 for any other string.

    `int` raises ValueError for longer ones, and for some characters that `str.isdigit` accepts.
    """
    return int(text) if text.isdecimal() and len(text) <= 18 else 0
