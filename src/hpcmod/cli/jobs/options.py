"""Options of `hpcmod job` for the scheduler, variables and further steps, and the values made from them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.cli.jobs.run_options import RunFlags, script_options
from hpcmod.errors import BadInputError
from hpcmod.model.jobs.request import OPTIONS, JobModule, JobRequest
from hpcmod.model.jobs.requeue import MOST_REQUEUES, parse_requeue

NETWORK_VALUES = ("single_node_vni", "job_vni", "disable_rdzv_get", "none")
"""Values that completion offers for --network; the scheduler accepts more, separated by commas."""


@dataclass(frozen=True)
class JobFlags(RunFlags):
    """Arguments and options of `hpcmod job`."""

    module: str
    program: tuple[str, ...]
    nodes: int
    ranks: int
    """In total; 0: equal shares of the nodes."""
    account: str
    qos: str
    time: str
    partition: str
    constraint: str
    reservation: str
    job_name: str
    output: str
    error: str
    chdir: str
    dependency: str
    array: str
    cpus: int | None
    sockets_per_node: int | None
    network: str
    more: tuple[str, ...]
    """Other options in the scheduler's own words."""
    variables: tuple[str, ...]
    before: tuple[str, ...]
    then: tuple[str, ...]
    requeue_on: str
    max_requeues: int
    stage_data: tuple[str, ...]
    proxy: bool
    script: Path | None
    submit: bool
    salloc: bool
    dry_run: bool
    check: bool
    check_resubmit: bool
    report: bool
    rerun: str
    as_json: bool

    @property
    def submits(self) -> bool:
        """Return whether the batch script is submitted."""
        return self.submit and not self.dry_run


def less_common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the less common options of `hpcmod job`."""
    for option in (
        click.option("--max-requeues", default=MOST_REQUEUES, metavar="N", help="Maximum requeues (default: 10)."),
        click.option("--requeue-on", default="", metavar="SIG@SECONDS", help="Signal for a checkpoint, then requeue."),
        click.option("--check-resubmit", is_flag=True, help="As --check, and submit the job again without bad nodes."),
        click.option("--report", is_flag=True, help="Print at the end how long the ranks took to start."),
        click.option("--check", is_flag=True, help="Check the nodes first, and end the job if one is bad."),
        click.option("--then", multiple=True, metavar="COMMAND", help="Program to run afterwards on the same ranks."),
        click.option("--before", multiple=True, metavar="COMMAND", help="Program to run once, before the ranks start."),
        click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Variable for the ranks."),
        click.option("--network", default="", metavar="VALUE", help="sbatch --network (default: the profile's).",
                     shell_complete=lambda *_: list(NETWORK_VALUES)),
        click.option("--sockets-per-node", type=click.IntRange(min=1), help="Minimum number of sockets per node."),
        click.option("--cpus", type=click.IntRange(min=1), help="CPUs per rank (default: its share of the node)."),
        click.option("--array", default="", metavar="LIST", help="Job array: 0-15, 1,3,5 or 0-15%4."),
        click.option("--dependency", default="", metavar="LIST", help="Jobs to wait for: afterok:4711."),
        click.option("--chdir", default="", metavar="DIRECTORY", help="Working directory (default: this one)."),
        click.option("--error", default="", metavar="FILE", help="File for stderr (default: that of --output)."),
    ):  # fmt: skip
        command = option(command)
    return command


def directives(flags: JobFlags) -> tuple[tuple[str, str], ...]:
    """Return the options of the scheduler that were given, as pairs of long name and value."""
    pairs = [(name, getattr(flags, name.replace("-", "_"), None)) for name in OPTIONS]
    return tuple((name, str(value)) for name, value in pairs if value)


def make_request(flags: JobFlags, loading: JobModule, *, image_mpi: str, runtime: str) -> JobRequest:
    """Return the request of a job.

    Parameters
    ----------
    loading
        The module, as the batch script loads it.
    image_mpi
        The MPI of its image; empty if it is not known.
    runtime
        Name of the container runtime.

    Raises
    ------
    BadInputError
        If a variable has no value, or a further program cannot be split into words.
    """
    return JobRequest(
        program=flags.program,
        module=loading.name,
        loading=loading,
        nodes=flags.nodes,
        ranks_per_node=flags.ranks_per_node,
        ranks=flags.ranks,
        gpus=flags.gpus,
        cpus=flags.cpus or -1,
        node_type=flags.node_type,
        launcher=flags.launcher or "",
        options=directives(flags),
        more=flags.more,
        stage_data=flags.stage_data,
        script_options=script_options(flags),
        binds=flags.binds,
        proxy=flags.proxy,
        runtime=runtime,
        requeue=parse_requeue(flags.requeue_on, flags.max_requeues) if flags.requeue_on else None,
        before=tuple(_split(words, "--before") for words in flags.before),
        check="resubmit" if flags.check_resubmit else "stop" if flags.check else "",
        report=flags.report,
        then=tuple(_split(words, "--then") for words in flags.then),
        variables=tuple(_parse_variable(text) for text in flags.variables),
        mpi=flags.mpi,
        image_mpi=image_mpi,
        start=flags.start or "",
    )


def _split(words: str, option: str) -> tuple[str, ...]:
    try:
        found = tuple(shlex.split(words))
    except ValueError as err:
        raise BadInputError(f"{option} {words!r}: {err}", "Close the quotes.") from err
    if not found:
        raise BadInputError(f"{option} has no program", f"Write {option} 'prepare.py --out data'.")
    return found


def _parse_variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInputError(f"--env {text} has no value", f"Write --env {text or 'NAME'}=VALUE.")
    return name, value
