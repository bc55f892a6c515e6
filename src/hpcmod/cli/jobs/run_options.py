"""Options that `hpcmod job` and `hpcmod launch` share, and the values made from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.cli.containers import complete_site
from hpcmod.cli.output import tell
from hpcmod.install.runtime import find_runtime
from hpcmod.model.jobs.step import STARTS
from hpcmod.model.site import LAUNCHERS, RAY, STAGE_PLACES

MPI_TYPES = ("pmix", "pmi2", "cray_shasta", "none")
"""Values that completion offers for --mpi; srun may accept more."""

PROFILERS = ("torch", "rocprofv3", "rocprof", "nsys", "py-spy", "perf")
"""Values that completion offers for --profiler; any other command is accepted."""


@dataclass(frozen=True)
class RunFlags:
    """Options that `hpcmod job` and `hpcmod launch` share."""

    site: str | None
    node_type: str
    launcher: str | None
    ranks_per_node: int
    """0: one per GPU."""
    mpi: str
    gpus: int
    """Per node; -1: all."""
    gpus_visible: str | None
    binds: tuple[str, ...]
    profile_rank: str
    profiler: str
    profile_steps: str
    save_caches: str
    restore_caches: str
    rdzv: str | None
    max_restarts: str
    tee: str
    debug: str
    start: str | None
    preload: str
    stage: str | None
    """One of STAGE_PLACES, auto or off; None: off."""


class CommandOfProgram(click.Command):
    """A command that runs a program, and reports options that belong after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options; an unknown one may belong to the program."""
        asked = list(args)
        try:
            left = super().parse_args(ctx, args)
        except click.NoSuchOption as fault:
            if "--" in asked:
                raise
            message = f"{fault.format_message()} If it is for the program, put program arguments after `--`."
            raise click.UsageError(message, ctx) from fault
        program = ctx.params.get("program")
        if program and "--" not in asked and not ctx.resilient_parsing:
            ours = [word for word in asked[asked.index(program[0]) :] if word.startswith("-")]
            if ours:
                tell(f"{' '.join(ours)} is taken as an option of hpcmod; put program arguments after `--`.")
        return left


mpi_option = click.option(
    "--mpi",
    default="",
    metavar="TYPE",
    help="How ranks and MPI connect: srun --mpi (default: what the image's MPI needs).",
    shell_complete=lambda *_: list(MPI_TYPES),
)
"""The option of every command that starts ranks which may use MPI."""


def of_a_run(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that `hpcmod job` and `hpcmod launch` share."""
    for option in (
        click.option("--site", shell_complete=complete_site, help="Name or file of the site profile."),
        click.option("--node-type", default="", help="Node type, as named in the site profile."),
        click.option(
            "--launcher",
            default=None,
            type=click.Choice((*LAUNCHERS, RAY)),
            help="Launcher that starts the ranks; ray: a Ray cluster for one program.",
        ),
        click.option("--ranks-per-node", default=0, help="Ranks per node (default: one per GPU)."),
        mpi_option,
        click.option("--gpus", default=-1, help="GPUs per node (default: all)."),
        click.option(
            "--gpus-visible",
            default=None,
            type=click.Choice(("one", "all")),
            help="GPUs that each rank sees (default: the site profile's).",
        ),
        click.option("-B", "--bind", "binds", multiple=True, help="Additional bind path."),
        click.option("--profile-rank", default="", help="Ranks to run under a profiler: 14 or 0,8."),
        click.option(
            "--profiler",
            default="",
            help="Profiler: torch, rocprofv3, rocprof, nsys, py-spy, perf, or any command.",
            shell_complete=lambda *_: list(PROFILERS),
        ),
        click.option(
            "--profile-steps", default="", metavar="N", help="Optimizer steps that torch records; 0: all (default: 3)."
        ),
        click.option("--save-caches", default="", metavar="DIR", help="Directory to save compiled kernels to."),
        click.option("--restore-caches", default="", metavar="DIR", help="Directory to restore compiled kernels from."),
        click.option("--rdzv", default=None, type=click.Choice(("static", "c10d")), help="torchrun rendezvous."),
        click.option("--max-restarts", default="", metavar="N", help="Maximum number of torchrun restarts."),
        click.option("--tee", default="", metavar="N", help="Output that torchrun prints: 1 stdout, 2 stderr, 3 both."),
        click.option("--debug", default="", help="Debug logs, one file per rank: rccl, nccl, hip, miopen, torch, mpi."),
        click.option(
            "--stage",
            default=None,
            type=click.Choice((*STAGE_PLACES, "auto", "off")),
            help="Copy the image to a disk or the memory of each node; auto: if that is faster (default: off).",
        ),
        click.option("--start", default=None, type=click.Choice(STARTS), help="Containers (default: one-per-rank)."),
        click.option("--preload", default="", metavar="NAME,...", help="Modules to import before the ranks fork."),
    ):  # fmt: skip
        command = option(command)
    return command


def script_options(flags: RunFlags) -> tuple[str, ...]:
    """Return the options for the run script."""
    torchrun = ("rdzv", "max-restarts", "tee")
    profiling = ("profile-rank", "profiler", "profile-steps")
    names = ("gpus-visible", *torchrun, "save-caches", "restore-caches", *profiling, "debug", "preload")
    pairs = [(f"--{name}", str(getattr(flags, name.replace("-", "_")) or "")) for name in names]
    return tuple(word for pair in pairs if pair[1] for word in pair)


def runtime_name() -> str:
    """Return the container runtime of this machine; if missing, `singularity`, which both runtimes answer to."""
    return Path(find_runtime(os.environ) or "singularity").name
