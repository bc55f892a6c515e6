"""Arguments and options of `hpcmod job`, and the request made from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.core.errors import BadInputError
from hpcmod.jobs.cli.run_options import RunFlags
from hpcmod.jobs.values.request import CHECKS, OPTIONS, JobImage, JobModule, JobRequest, Staging
from hpcmod.jobs.values.requeue import parse_requeue


@dataclass(frozen=True)
class JobFlags(RunFlags):
    """Arguments and options of `hpcmod job`."""

    module: str
    program: tuple[str, ...]
    nodes: int
    cpus: int | None
    account: str
    qos: str
    time: str
    partition: str
    constraint: str
    job_name: str
    more: tuple[str, ...]
    """Other options of sbatch."""
    variables: tuple[str, ...]
    proxy: bool
    stage_data: tuple[str, ...]
    check: str | None
    requeue_on: str
    report: bool
    script: Path | None
    submit: bool
    salloc: bool
    rerun: str
    dry_run: bool
    as_json: bool

    @property
    def submits(self) -> bool:
        """Return whether the batch script is submitted."""
        return self.submit and not self.dry_run


def of_a_job(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that only `hpcmod job` has."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Print the script; write and submit nothing."),
        click.option("--rerun", default="", metavar="FILE|JOBID", help="Earlier batch script or job to run again."),
        click.option("--salloc", is_flag=True, help="Print the salloc command for the same nodes."),
        click.option("--submit", is_flag=True, help="Submit the script with sbatch, or with --salloc run salloc."),
        click.option(
            "-o", "script", metavar="FILE", type=click.Path(path_type=Path), help="File to write (default: stdout)."
        ),
        click.option("--report", is_flag=True, help="Print at the end how long the ranks took to start."),
        click.option("--requeue-on", default="", metavar="SIG@SECONDS", help="Signal for a checkpoint, then requeue."),
        click.option(
            "--check",
            default=None,
            type=click.Choice(CHECKS),
            help="Check the nodes first; if one is bad: end the job, or submit it again without the node.",
        ),
        click.option("--stage-data", multiple=True, help="Archive or squashfs for every node, at /staged-data/NAME."),
        click.option("--proxy", is_flag=True, help="Set the site's proxy variables for internet access."),
        click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Variable for the ranks."),
        click.option("--sbatch", "more", multiple=True, help="Any other sbatch option, e.g. --sbatch=--array=0-15."),
        click.option("-J", "--job-name", default="", help="Name of the job (default: the program's)."),
        click.option("-C", "--constraint", default="", help="Features that the nodes must have."),
        click.option("-p", "--partition", default="", help="Partition (default: the first with such nodes)."),
        click.option("-t", "--time", default="", help="Time limit, as HH:MM:SS or in minutes."),
        click.option("-q", "--qos", default="", help="Quality of service."),
        click.option("-A", "--account", default="", help="Slurm account."),
        click.option("--cpus", type=click.IntRange(min=1), help="CPUs per rank (default: its share of the node)."),
        click.option("-N", "--nodes", default=1, help="Number of nodes (default: 1)."),
    ):  # fmt: skip
        command = option(command)
    return command


def named_options(flags: JobFlags) -> tuple[tuple[str, str], ...]:
    """Return the options of sbatch that were given, as pairs of long name and value."""
    pairs = [(name, str(getattr(flags, name.replace("-", "_")))) for name in OPTIONS]
    return tuple((name, value) for name, value in pairs if value)


def make_request(flags: JobFlags, module: JobModule, image: JobImage, *, runtime: str) -> JobRequest:
    """Return the request of a job.

    Parameters
    ----------
    module
        The module, as the batch script loads it.
    runtime
        Name of the container runtime.

    Raises
    ------
    BadInputError
        If a variable has no value, or the signal of a checkpoint is not valid.
    """
    return JobRequest(
        program=flags.program,
        module=module,
        nodes=flags.nodes,
        ranks_per_node=flags.ranks_per_node,
        gpus=flags.gpus,
        cpus=flags.cpus or -1,
        node_type=flags.node_type,
        launcher=flags.launcher or "",
        options=named_options(flags),
        more=flags.more,
        staging=Staging(data=flags.stage_data),
        binds=flags.binds,
        proxy=flags.proxy,
        runtime=runtime,
        requeue=parse_requeue(flags.requeue_on) if flags.requeue_on else None,
        check=flags.check or "",
        report=flags.report,
        variables=tuple(_parse_variable(text) for text in flags.variables),
        mpi=flags.mpi,
        image=image,
        start=flags.start or "",
    )


def _parse_variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInputError(f"--env {text} has no value", f"Write --env {text or 'NAME'}=VALUE.")
    return name, value
