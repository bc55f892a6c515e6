"""Options that request nodes, and how a command runs itself again in a new allocation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import print_data, print_json, tell
from hpcmod.core.errors import LackingError
from hpcmod.core.process import call
from hpcmod.core.text.quote import sh_word
from hpcmod.jobs.queue import has_queue
from hpcmod.jobs.values.allocation import Allocation, read_allocation
from hpcmod.jobs.values.job import make_job
from hpcmod.jobs.values.request import JobRequest, with_options
from hpcmod.jobs.values.slurm import EXIT_VARIABLE, VARIABLES, check_scheduler, make_salloc
from hpcmod.machine.values.site import Site

_REFUSED = 77  # exit status of a refused request; this command itself has no such status
_NAMES = ("account", "qos", "time", "partition", "constraint")


@dataclass(frozen=True)
class PlaceFlags:
    """Options that say which nodes to request, with the names and meanings of `hpcmod job`."""

    account: str
    qos: str
    time: str
    partition: str
    constraint: str
    more: tuple[str, ...]
    """Other options in sbatch's own words."""
    node_type: str
    gpus: int
    """Per node; -1: all."""
    site: str | None


@dataclass(frozen=True)
class AllocationFlags(PlaceFlags):
    """Options that request nodes, with the names and meanings of `hpcmod job`."""

    nodes: int | None
    """None: all of the current allocation, or one in a new one."""


def place_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which nodes to request."""
    for option in (
        site_option,
        click.option("--gpus", default=-1, help="GPUs per node (default: all)."),
        click.option("--node-type", default="", help="Node type, as named in the site profile."),
        click.option("--sbatch", "more", multiple=True, help="Any other sbatch option, e.g. --sbatch=--mem=0."),
        click.option("-C", "--constraint", default="", help="Features that the nodes must have."),
        click.option("-p", "--partition", default="", help="Partition (default: the first with such nodes)."),
        click.option("-t", "--time", default="", help="Time limit, as HH:MM:SS or in minutes."),
        click.option("-q", "--qos", default="", help="Quality of service."),
        click.option("-A", "--account", default="", help="Slurm account."),
    ):
        command = option(command)
    return command


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

    Raises
    ------
    LackingError
        If the machine has another scheduler than Slurm.
    """
    check_scheduler(site)
    return read_allocation(os.environ)


def make_allocation(flags: AllocationFlags, site: Site, *, minutes: int, ranks_per_node: int = 0) -> tuple[str, ...]:
    """Return the command that requests the nodes and runs a command in them.

    Parameters
    ----------
    minutes
        Time limit, if the user gives none.
    ranks_per_node
        Ranks for which each node needs cores; 0: one per GPU.

    Raises
    ------
    BadInputError
        If the request does not fit the machine.
    """
    given = {"time": str(minutes), **{key: getattr(flags, key) for key in _NAMES if getattr(flags, key)}}
    variables = {key: os.environ.get(variable, "") for key, variable in VARIABLES.items() if key != "time"}
    request = JobRequest(
        program=("hpcmod",),
        nodes=flags.nodes or 1,
        ranks_per_node=ranks_per_node,
        gpus=flags.gpus,
        node_type=flags.node_type,
        options=tuple(given.items()),
        more=flags.more,
    )
    return make_salloc(make_job(with_options(request, variables), site).directives)


def run_again(command: Sequence[str]) -> int:
    """Run this same command line again in a new allocation, on our own terminal, and return its exit status.

    Parameters
    ----------
    command
        A result of `make_allocation`. The allocation ends with the command, and when this process is killed.

    Raises
    ------
    LackingError
        If there is no Slurm here, or it refuses the request.
    """
    if not has_queue():
        raise LackingError(f"no Slurm here: {command[0]} is missing", "Run this on a login node, or inside a job.")
    tell(f"requesting nodes: {' '.join(command)}")
    environ = {**os.environ, EXIT_VARIABLE: str(_REFUSED)}
    status = call([*command, str(Path(sys.argv[0]).absolute()), *sys.argv[1:]], env=environ, tied=True)
    if status == _REFUSED:
        raise LackingError("Slurm gave no nodes", "Its message is above; change the options for nodes.")
    return status
