"""What a user asks of a job: nodes, ranks, options of sbatch, what to stage and what to run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hpcmod.errors import BadInputError
from hpcmod.model.site import LAUNCHERS
from hpcmod.model.text import check_plain

SBATCH_VARIABLES = {
    "account": "SBATCH_ACCOUNT",
    "qos": "SBATCH_QOS",
    "time": "SBATCH_TIMELIMIT",
    "partition": "SBATCH_PARTITION",
    "constraint": "SBATCH_CONSTRAINT",
    "reservation": "SBATCH_RESERVATION",
}
"""Options of sbatch that a request can hold, and the variable from which sbatch takes each (sbatch(1), Slurm 22.05)."""

_ANY_VALUE = re.compile(r"[A-Za-z0-9_.,:=@%+*/\[\]()|&-]+")


@dataclass(frozen=True)
class JobRequest:
    """What the user asks for; 0 and empty stand for what fits the machine."""

    program: tuple[str, ...]
    """A Python file and its arguments, options of Python first; or a command of the image."""
    module: str = ""
    nodes: int = 1
    ranks_per_node: int = 0
    ranks: int = 0
    """In all, where the nodes get unequal shares; dealt out by Slurm."""
    gpus: int = -1
    """A node; -1: all that the node type has."""
    cpus: int = -1
    """A task; -1: an equal share of what a job may use; 0: left to Slurm."""
    node_type: str = ""
    launcher: str = ""
    options: tuple[tuple[str, str], ...] = ()
    """Options of sbatch by long name: account, qos, time, partition, constraint, reservation, job-name, output."""
    more: tuple[str, ...] = ()
    """Further options of sbatch, as they are."""
    stage: str = ""
    """Place to stage the image to: nvme or ram."""
    stage_data: tuple[str, ...] = ()
    """Archives and squashfs files to put on every node."""
    script_options: tuple[str, ...] = ()
    """Options of the run script, e.g. --profile-rank 14."""
    binds: tuple[str, ...] = ()
    proxy: bool = False
    runtime: str = "singularity"

    def option(self, name: str) -> str:
        """Value of an option of sbatch; empty: not given."""
        return dict(self.options).get(name, "")


def check_request(request: JobRequest) -> None:
    """Refuse what cannot be written into a batch script, and a request for nothing.

    Raises
    ------
    BadInputError
        With the first fault.
    """
    values = [*(value for _, value in request.options), *request.more, request.module]
    bad = [value for value in values if value and not _ANY_VALUE.fullmatch(value)]
    if bad:
        raise BadInputError(f"{bad[0]!r} cannot stand in a batch script", "Leave out blanks, quotes and `$`.")
    for word in (*request.program, *request.stage_data, *request.binds, *request.script_options):
        check_plain(word, "the command line")
    if request.nodes < 1 or request.ranks_per_node < 0 or request.ranks < 0 or request.gpus < -1:
        raise BadInputError("nodes, ranks and GPUs are counted from 1", "Leave out what you do not want to choose.")
    if 0 < request.ranks < request.nodes:
        raise BadInputError(
            f"{request.ranks} ranks on {request.nodes} nodes: some would have none", "Ask for fewer nodes: -N."
        )
    if not request.program:
        raise BadInputError("no program to run", "Name it at the end: ... -- train.py ARGUMENTS")
    if request.program[0] in LAUNCHERS or request.program[0] == "srun":
        name = request.program[0]
        raise BadInputError(f"{name} stands where the program does", f"Write --launcher {name} -- train.py ARGUMENTS")


def is_command(request: JobRequest) -> bool:
    """Say whether the program is a command of the image rather than something for its Python."""
    first = request.program[0]
    return not (first.startswith("-") or first.endswith(".py") or first in ("python", "python3"))


def with_options(request: JobRequest, options: Mapping[str, str]) -> JobRequest:
    """Give a request options of sbatch that it does not have yet."""
    named = {**{name: value for name, value in options.items() if value}, **dict(request.options)}
    return replace(request, options=tuple(named.items()))
