"""Options that request nodes, and how a command runs itself again in a new allocation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.core.cli.arguments import with_options
from hpcmod.core.cli.flags import nested
from hpcmod.core.cli.output import print_data, print_json, tell
from hpcmod.core.errors import LackingError
from hpcmod.core.process import call
from hpcmod.core.text.quote import sh_word
from hpcmod.jobs.cli.run_options import NODE_OPTIONS, SLURM_OPTIONS, SlurmFlags
from hpcmod.jobs.queue import has_queue
from hpcmod.jobs.values.allocation import Allocation, read_allocation
from hpcmod.jobs.values.job import make_job
from hpcmod.jobs.values.request import JobRequest, Ranks
from hpcmod.jobs.values.slurm import EXIT_VARIABLE, check_scheduler, make_salloc, usual_options
from hpcmod.machine.values.site import Site

_REFUSED = 77  # exit status of a refused request; this command itself has no such status

place_options = with_options(*SLURM_OPTIONS, *NODE_OPTIONS)
"""Decorator that adds the options of PlaceFlags."""


@dataclass(frozen=True)
class PlaceFlags:
    """Options that say which nodes to request, with the names and meanings of `hpcmod job`."""

    slurm: SlurmFlags = field(metadata=nested(SlurmFlags))
    node_type: str
    gpus: int
    """Per node; -1: all."""
    site: str | None


@dataclass(frozen=True)
class DryRun:
    """Commands that would run."""

    commands: tuple[str, ...]
    """Lines for a shell."""


def print_dry_run(commands: Iterable[Sequence[str]], *, as_json: bool) -> None:
    """Print the commands that would run."""
    lines = tuple(" ".join(map(sh_word, command)) for command in commands)
    if as_json:
        print_json(DryRun(lines))
    else:
        print_data("\n".join(lines))


def find_allocation(site: Site) -> Allocation | None:
    """Return the allocation that this process is in; None outside of one.

    Raises LackingError if the machine has another scheduler than Slurm.
    """
    check_scheduler(site)
    return read_allocation(os.environ)


def make_allocation(
    flags: PlaceFlags, site: Site, *, nodes: int, minutes: int, ranks_per_node: int = 0
) -> tuple[str, ...]:
    """Return the command that requests the nodes and runs a command in them.

    `minutes`: Time limit, if the user gives none.
    `ranks_per_node`: Ranks for which each node needs cores; 0: one per GPU.

    Raises BadInputError if the request does not fit the machine.
    """
    options = {**usual_options(os.environ), "time": str(minutes), **flags.slurm.named}
    request = JobRequest(
        program=("hpcmod",),
        nodes=nodes,
        node_type=flags.node_type,
        ranks=Ranks(per_node=ranks_per_node, gpus=flags.gpus),
        options=tuple(options.items()),
        more=flags.slurm.more,
    )
    return make_salloc(make_job(request, site).directives)


def run_again(command: Sequence[str]) -> int:
    """Run this same command line again in a new allocation, on our own terminal, and return its exit status.

    `command`: A result of `make_allocation`. The allocation ends with the command, and when this process is killed.

    Raises LackingError if there is no Slurm here, or it refuses the request.
    """
    if not has_queue():
        raise LackingError(f"no Slurm here: {command[0]} is missing", "Run this on a login node, or inside a job.")
    tell(f"requesting nodes: {' '.join(command)}")
    environ = {**os.environ, EXIT_VARIABLE: str(_REFUSED)}
    status = call([*command, str(Path(sys.argv[0]).absolute()), *sys.argv[1:]], env=environ, tied=True)
    if status == _REFUSED:
        raise LackingError("Slurm gave no nodes", "Its message is above; change the options for nodes.")
    return status
