"""Arguments and options of `hpcmod job`, and the request made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from hpcmod.core.cli.arguments import Option
from hpcmod.core.cli.flags import nested
from hpcmod.core.errors import BadInputError
from hpcmod.jobs.cli.run_options import RunFlags, SlurmFlags
from hpcmod.jobs.values.request import CHECKS, JobContainer, JobModule, JobRequest, Ranks, Staging
from hpcmod.jobs.values.requeue import parse_requeue


@dataclass(frozen=True)
class ScriptFlags:
    """What `hpcmod job` does with the batch script."""

    script: Path | None
    submit: bool
    salloc: bool
    rerun: str
    dry_run: bool
    as_json: bool


@dataclass(frozen=True)
class JobFlags:
    """Arguments and options of `hpcmod job`."""

    run: RunFlags = field(metadata=nested(RunFlags))
    slurm: SlurmFlags = field(metadata=nested(SlurmFlags))
    output: ScriptFlags = field(metadata=nested(ScriptFlags))
    site: str | None
    module: str
    program: tuple[str, ...]
    nodes: int
    cpus: int | None
    job_name: str
    variables: tuple[str, ...]
    proxy: bool
    stage_data: tuple[str, ...]
    check: str | None
    requeue_on: str

    @property
    def submits(self) -> bool:
        """Return whether the batch script is submitted."""
        return self.output.submit and not self.output.dry_run

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the variables of --env; raises BadInputError if one has no value."""
        return [_parse_variable(text) for text in self.variables]

    @property
    def named(self) -> dict[str, str]:
        """Return the options of sbatch that were given, by long name, but for those in its own words."""
        return {**({"job-name": self.job_name} if self.job_name else {}), **self.slurm.named}


JOB_OPTIONS: Sequence[Option] = (
    click.option("-N", "--nodes", default=1, help="Number of nodes (default: 1)."),
    click.option("--cpus", type=click.IntRange(min=1), help="CPUs per rank (default: its share of the node)."),
    click.option("-J", "--job-name", default="", help="Name of the job (default: the program's)."),
    click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Variable for the ranks."),
    click.option("--proxy", is_flag=True, help="Set the site's proxy variables for internet access."),
    click.option("--stage-data", multiple=True, help="Archive or squashfs for every node, at /staged-data/NAME."),
    click.option(
        "--check",
        default=None,
        type=click.Choice(CHECKS),
        help="Check the nodes first; if one is bad: end the job, or submit it again without the node.",
    ),
    click.option("--requeue-on", default="", metavar="SIG@SECONDS", help="Signal for a checkpoint, then requeue."),
    click.option(
        "-o",
        "script",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="File to write (default: stdout; with --submit: PROGRAM.sh).",
    ),
    click.option("--submit", is_flag=True, help="Submit the script with sbatch, or with --salloc run salloc."),
    click.option("--salloc", is_flag=True, help="Print the salloc command for the same nodes."),
    click.option("--rerun", default="", metavar="FILE|JOBID", help="Earlier batch script or job to run again."),
    click.option("--dry-run", is_flag=True, help="Print the script; write and submit nothing."),
)
"""The options that only `hpcmod job` has."""


def make_request(
    flags: JobFlags, program: tuple[str, ...], module: JobModule, container: JobContainer, named: dict[str, str]
) -> JobRequest:
    """Return the request of a job.

    `module`: The module, as the batch script loads it.
    `container`: Without the binds of the options, which are added.
    `named`: Options of sbatch that the user has set once for all jobs; those of the command override them.

    Raises BadInputError if a variable has no value, or the signal of a checkpoint is not valid.
    """
    run = flags.run
    return JobRequest(
        program=program,
        module=module,
        container=container._replace(binds=run.binds),
        nodes=flags.nodes,
        node_type=run.node_type,
        ranks=make_ranks(run)._replace(cpus=flags.cpus or -1),
        options=tuple({**named, **flags.named}.items()),
        more=flags.slurm.more,
        staging=Staging(data=flags.stage_data),
        variables=tuple((name, value) for name, value in flags.pairs if name not in dict(module.choice)),
        proxy=flags.proxy,
        requeue=parse_requeue(flags.requeue_on) if flags.requeue_on else None,
        check=flags.check or "",
    )


def make_ranks(flags: RunFlags) -> Ranks:
    """Return how many ranks the options ask for, and how they start."""
    return Ranks(
        per_node=flags.ranks_per_node,
        gpus=flags.gpus,
        launcher=flags.launcher or "",
        mpi=flags.mpi,
        start=flags.start or "",
    )


def _parse_variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInputError(f"--env {text} has no value", f"Write --env {text or 'NAME'}=VALUE.")
    return name, value
