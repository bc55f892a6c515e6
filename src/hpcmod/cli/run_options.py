"""Options that `hpcmod job` and `hpcmod launch` share, and what is made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from hpcmod.cli.containers import complete_site
from hpcmod.cli.output import tell
from hpcmod.install.runtime import find_runtime
from hpcmod.model.site import LAUNCHERS

MPI_TYPES = ("pmix", "pmi2", "cray_shasta", "none")
"""What completion offers for --mpi; srun may know more."""


class CommandOfProgram(click.Command):
    """A verb that runs a program, and says where the program's own options belong when it meets one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; one that is not ours may be the program's."""
        asked = list(args)
        try:
            left = super().parse_args(ctx, args)
        except click.NoSuchOption as fault:
            if "--" in asked:
                raise
            told = f"{fault.format_message()} If it is for the program: put program arguments after `--`."
            raise click.UsageError(told, ctx) from fault
        program = ctx.params.get("program")
        if program and "--" not in asked and not ctx.params.get("lint") and not ctx.resilient_parsing:
            ours = [word for word in asked[asked.index(program[0]) :] if word.startswith("-")]
            if ours:
                told = f"{' '.join(ours)} is taken as an option of hpcmod; put program arguments after `--`"
                tell(f"{told}.")
        return left


def of_a_run(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that `hpcmod job` and `hpcmod launch` share."""
    for option in (
        click.option("--site", shell_complete=complete_site, help="Name or file of the site profile."),
        click.option("--node-type", default="", help="Kind of node, as the site profile names it."),
        click.option("--launcher", default=None, type=click.Choice(LAUNCHERS), help="What starts the ranks."),
        click.option("--ranks-per-node", default=0, help="Default: one a GPU."),
        click.option("--mpi", default="", metavar="TYPE", help="srun's --mpi; default: what the image's MPI needs.",
                     shell_complete=lambda *_: list(MPI_TYPES)),
        click.option("--gpus", default=-1, help="GPUs per node (default: all)."),
        click.option(
            "--gpus-visible",
            default=None,
            type=click.Choice(("one", "all")),
            help="GPUs that each rank sees; default: as the site profile says.",
        ),
        click.option("-B", "--bind", "binds", multiple=True, help="Bind path, beside those of the module."),
        click.option("--profile-rank", default="", help="Run these ranks under a profiler: 14 or 0,8."),
        click.option("--profiler", default="", help="rocprofv3, rocprof, nsys, py-spy, or any command."),
        click.option("--save-caches", default="", metavar="DIR", help="Place for compiled kernels at the end."),
        click.option("--restore-caches", default="", metavar="DIR", help="Place of compiled kernels to begin with."),
        click.option("--rdzv", default=None, type=click.Choice(("static", "c10d")), help="Rendezvous of torchrun."),
        click.option("--max-restarts", default="", metavar="N", help="Restarts of failed ranks by torchrun."),
        click.option("--tee", default="", metavar="N", help="Output of ranks for torchrun to print: 1, 2 or 3."),
        click.option("--debug", default="", help="Logs, one file a rank, of: rccl, nccl, hip, miopen, torch, mpi."),
    ):  # fmt: skip
        command = option(command)
    return command


def script_options(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Collect the options that the run script gets."""
    torchrun = ("rdzv", "max-restarts", "tee")
    names = ("gpus-visible", *torchrun, "save-caches", "restore-caches", "profile-rank", "profiler", "debug")
    pairs = [(f"--{name}", given[name.replace("-", "_")]) for name in names]
    return tuple(word for pair in pairs if pair[1] for word in pair)


def runtime_name() -> str:
    """Name the container runtime of this machine; where there is none, the name that both answer to."""
    return Path(find_runtime(os.environ) or "singularity").name
