"""Options that several commands of jobs share, and how they print theirs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.core.cli.arguments import Option, site_option
from hpcmod.core.cli.output import tell
from hpcmod.core.registry import offered
from hpcmod.core.values.facts import COMMAND
from hpcmod.jobs.values.request import JobContainer
from hpcmod.jobs.values.step import STARTS
from hpcmod.machine import find_runtime
from hpcmod.machine.values.site import LAUNCHERS, RAY, STAGE_PLACES, Site
from hpcmod.modules.values.install_record import InstallRecord

MPI_TYPES = ("pmix", "pmi2", "cray_shasta", "none")
"""Values that completion offers for --mpi; srun may accept more."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Nodes and ranks": ("nodes", "ranks_per_node", "gpus", "cpus", "node_type"),
    "Slurm": ("account", "qos", "time", "partition", "constraint", "job_name", "more"),
    "Ranks and their containers": ("launcher", "mpi", "start", "binds", "variables", "proxy"),
    "Copies on the nodes": ("stage", "stage_data"),
    "What the script also does": ("check", "requeue_on"),
}
"""Headings of the help page, each with the names of its options; the others come last."""


@dataclass(frozen=True)
class SlurmFlags:
    """Options of sbatch, with its names and meanings."""

    account: str
    qos: str
    time: str
    partition: str
    constraint: str
    more: tuple[str, ...]
    """Other options in sbatch's own words."""

    @property
    def named(self) -> dict[str, str]:
        """Return the options that were given, by long name, but for `more`."""
        return {name: value for name, value in vars(self).items() if value and name != "more"}


@dataclass(frozen=True)
class RunFlags:
    """Options that `hpcmod job` and `hpcmod launch` share."""

    node_type: str
    launcher: str | None
    ranks_per_node: int
    """0: one per GPU."""
    mpi: str
    gpus: int
    """Per node; -1: all."""
    binds: tuple[str, ...]
    start: str | None
    stage: str | None
    """One of STAGE_PLACES, auto or off; None: off."""


class CommandOfProgram(click.Command):
    """A command that runs a program or a job: it reports options that belong after `--`, and groups its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options; an unknown one may belong to the last argument, such as a program."""
        asked = list(args)
        try:
            left = super().parse_args(ctx, args)
        except click.NoSuchOption as fault:
            message = f"{fault.message.rstrip('.')}."
            if "--" not in asked:
                rest = [each.name for each in self.params if isinstance(each, click.Argument)][-1]
                message += f" If it is for the {rest}, put it after `--`."
            if "more" in {each.name for each in self.params}:
                name = fault.option_name if fault.option_name.startswith("--") else "--NAME"
                message += f" For other options of sbatch: --sbatch={name}=VALUE."
            fault.message = message  # type: ignore[misc]
            raise
        program = ctx.params.get("program")
        if program and "--" not in asked and not ctx.resilient_parsing:
            ours = [word for word in asked[asked.index(program[0]) :] if word.startswith("-")]
            if ours:
                tell(f"{' '.join(ours)} is taken as an option of hpcmod; put program arguments after `--`.")
        return left

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options below their headings."""
        options = (each for each in self.get_params(ctx) if isinstance(each, click.Option))
        records = {option.name: option.get_help_record(ctx) for option in options}
        grouped = {heading: [records.pop(name, None) for name in names] for heading, names in GROUPS.items()}
        for heading, rows in {**grouped, "Options": list(records.values())}.items():
            shown = [row for row in rows if row]
            if shown:
                with formatter.section(heading):
                    formatter.write_dl(shown)


mpi_option = click.option(
    "--mpi",
    default="",
    metavar="TYPE",
    help="How ranks and MPI connect: srun --mpi (default: what the image's MPI needs).",
    shell_complete=lambda *_: list(MPI_TYPES),
)
"""The option of every command that starts ranks which may use MPI."""

SLURM_OPTIONS: Sequence[Option] = (
    click.option("-A", "--account", default="", help="Slurm account."),
    click.option("-q", "--qos", default="", help="Quality of service."),
    click.option("-t", "--time", default="", help="Time limit, as HH:MM:SS or in minutes."),
    click.option("-p", "--partition", default="", help="Partition (default: the first with such nodes)."),
    click.option("-C", "--constraint", default="", help="Features that the nodes must have."),
    click.option("--sbatch", "more", multiple=True, help="Any other sbatch option, e.g. --sbatch=--mem=0."),
)
"""The options of SlurmFlags."""

NODE_OPTIONS: Sequence[Option] = (
    click.option("--node-type", default="", help="Node type, as named in the site profile."),
    click.option("--gpus", default=-1, help="GPUs per node (default: all)."),
    site_option,
)
"""Options of every command that chooses nodes."""

RUN_OPTIONS: Sequence[Option] = (
    click.option("--start", default=None, type=click.Choice(STARTS), help="Containers (default: one-per-rank)."),
    click.option(
        "--stage",
        default=None,
        type=click.Choice((*STAGE_PLACES, "auto", "off")),
        help="Copy the image to a disk or the memory of each node; auto: if that is faster (default: off).",
    ),
    click.option("-B", "--bind", "binds", multiple=True, help="Additional bind path."),
    mpi_option,
    click.option("--ranks-per-node", default=0, help="Ranks per node (default: one per GPU)."),
    click.option(
        "--launcher",
        default=None,
        type=click.Choice((*LAUNCHERS, RAY)),
        help="Launcher that starts the ranks; ray: a Ray cluster for one program.",
    ),
    *NODE_OPTIONS,
)
"""The options of RunFlags, and --site."""


def find_own_mpi(record: InstallRecord, environ: Mapping[str, str]) -> str:
    """Return the MPI of packages that the user added to an installation; empty without one."""
    return next(filter(None, (find(record, environ) for find in offered("mpis"))), "")


def make_container(image: Path | None, site: Site, mpi: str) -> JobContainer:
    """Return how a job starts the container of an image, None if that is not known here, whose programs use an MPI."""
    entry = COMMAND
    if image and site.launcher.verb == "run":
        from hpcmod.images import Sif  # what reads images takes time to import

        entry = Sif(image).entry()
    runtime = Path(find_runtime(os.environ) or "singularity").name  # both runtimes answer to this name
    return JobContainer(runtime, mpi=mpi, entry=entry)
