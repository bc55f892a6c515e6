"""The command `hpcmod site env`: settings for the site's `eb`; with --diff, how a container changes the environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.catalogue.values.environment import Difference, compare_environments
from hpcmod.core.cli.output import json_option, print_data, print_json, print_text, tell
from hpcmod.core.errors import CheckFailedError, LackingError, NotFoundError
from hpcmod.core.process import run
from hpcmod.core.text.quote import terminal_line
from hpcmod.images import Sif
from hpcmod.machine import find_runtime
from hpcmod.modules import eb_environment


def environment_of_eb() -> dict[str, str]:
    """Return the complete environment for an `eb` process that must find hpcmod's easyblocks and easyconfigs."""
    # unless told otherwise, `eb` starts `python -O`, for which the Python of a system has no byte code that can be
    # reused: each `eb` would compile about a hundred modules of the standard library again
    optimize = os.environ.get("PYTHONOPTIMIZE") or "0"
    settings = eb_environment(os.environ, tell=tell)
    environ = {**os.environ, "PYTHONOPTIMIZE": optimize, **settings}
    return {name: value for name, value in environ.items() if value or name not in settings}


@dataclass(frozen=True)
class EnvironmentChanges:
    """Variables that differ in the container."""

    variables: tuple[Difference, ...]


@click.command()
@click.option("--diff", is_flag=True, help="Start the image of the loaded module, and compare its environment.")
@json_option(EnvironmentChanges, when="with --diff")
def env(diff: bool, as_json: bool) -> None:
    """Print the settings that let your site's `eb` find hpcmod.

    With --diff: print how variables change from this shell into the container of the loaded module, and what sets them.

    \b
    Examples:
      eval "$(hpcmod site env)"; eb PyTorch-2.7.1-rocm-6.2.4-singularity.eb
      module load PyTorch; hpcmod site env --diff
    """
    if diff:
        changes = _compare(os.environ)
        if as_json:
            print_json(EnvironmentChanges(changes))
        for change in changes if not as_json else ():
            values = f"{_visible(change.host)} -> {_visible(change.container)}"
            print_text(terminal_line(f"{change.name}: {values}  # {change.set_by}"))
        return
    if as_json:
        raise click.UsageError("--json needs --diff")
    for name, value in eb_environment(os.environ, again=True, tell=tell).items():
        print_data(f"export {name}={shlex.quote(value)}" if value else f"unset {name}")


def _compare(environ: Mapping[str, str]) -> tuple[Difference, ...]:
    path = Path(environ.get("SIF", ""))
    if not path.is_file():
        raise NotFoundError(
            f"{path}: no such image" if path != Path() else "no image: $SIF is not set",
            "Load a container module first.",
        )
    runtime = find_runtime(environ)
    if runtime is None:
        raise LackingError("neither singularity nor apptainer is on PATH", "Load its module, or install one of them.")
    done = run([runtime, "exec", str(path), "env", "-0"])
    if done.status:
        last_lines = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise CheckFailedError(
            f"{path} does not start: {runtime} exec ended with status {done.status}\n{last_lines}",
            "Check the image with `hpcmod verify`, and this machine with `hpcmod doctor`.",
        )
    inside = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)
    differences = compare_environments(environ, inside, image=Sif(path).facts().assigned)
    return tuple(difference for difference in differences if difference.host != difference.container)


def _visible(value: str | None) -> str:
    return "not set" if value is None else shlex.quote(value)
