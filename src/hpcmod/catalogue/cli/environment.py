"""The command `hpcmod site env`: settings for the site's `eb`; with --diff, how a container changes the environment."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click

from hpcmod.core import resources
from hpcmod.core.cli.output import json_option, print_data, print_json, print_text
from hpcmod.core.errors import CheckFailedError, LackingError, NotFoundError
from hpcmod.core.process import run
from hpcmod.core.text.quote import terminal_line
from hpcmod.core.values.environment import Difference, compare_environments
from hpcmod.images import read_facts
from hpcmod.machine.module_tool import eb_settings
from hpcmod.modules.runtime import find_runtime


def eb_environment() -> dict[str, str]:
    """Return the variables that let any `eb` find hpcmod's easyblocks and easyconfigs and this shell's module tool."""
    robot = os.environ.get("EASYBUILD_ROBOT_PATHS", "")
    path = os.environ.get("PYTHONPATH", "")
    ours = str(resources.easyconfigs_directory())
    include = {"EASYBUILD_INCLUDE_EASYBLOCKS": f"{resources.easyblocks_directory()}/container*.py"}
    return {
        **(include if resources.is_checkout() else {}),
        "EASYBUILD_ROBOT_PATHS": robot if ours in robot.split(":") else f"{ours}:{robot}",
        **eb_settings(os.environ),
        "PYTHONPATH": ":".join(dict.fromkeys([str(resources.import_directory()), *filter(None, path.split(":"))])),
    }


def environment_of_eb() -> dict[str, str]:
    """Return the complete environment for an `eb` process that must find hpcmod's easyblocks and easyconfigs."""
    # unless told otherwise, `eb` starts `python -O`, for which the Python of a system has no byte code that can be
    # reused: each `eb` would compile about a hundred modules of the standard library again
    optimize = os.environ.get("PYTHONOPTIMIZE") or "0"
    ours = {"EB_PYTHON": sys.executable, "PYTHONOPTIMIZE": optimize, **eb_environment()}
    if find_spec("easybuild.easyblocks.generic.containermodule"):
        # not needed, and EasyBuild accepts it only if easybuild-easyblocks is installed as well
        ours.pop("EASYBUILD_INCLUDE_EASYBLOCKS", None)
    return {**os.environ, **ours}


@dataclass(frozen=True)
class EnvironmentChanges:
    """Variables that differ in the container."""

    variables: tuple[Difference, ...]


@click.command()
@click.option("--diff", is_flag=True, help="Start an image, and compare its environment with this one.")
@click.option("--image", type=click.Path(path_type=Path), help="Image for --diff (default: $SIF).")
@click.option("--all", "everything", is_flag=True, help="Include unchanged variables in --diff.")
@json_option(EnvironmentChanges, when="with --diff")
def env(diff: bool, image: Path | None, everything: bool, as_json: bool) -> None:
    """Print the settings that let your site's `eb` find hpcmod.

    With --diff: print how variables change from this shell into the container of the loaded module, and what sets them.

    \b
    Examples:
      eval "$(hpcmod site env)"; eb PyTorch-2.7.1-rocm-6.2.4-singularity.eb
      module load PyTorch; hpcmod site env --diff
    """
    if not diff and (image or everything or as_json):
        raise click.UsageError("--image, --all and --json need --diff")
    if diff:
        _print_diff(_compare(image, os.environ), everything=everything, as_json=as_json)
        return
    for name, value in eb_environment().items():
        print_data(f"export {name}={shlex.quote(value)}")


def _compare(image: Path | None, environ: Mapping[str, str]) -> tuple[Difference, ...]:
    path = image or Path(environ.get("SIF", ""))
    if not path.is_file():
        raise NotFoundError(
            f"{path}: no such image" if path != Path() else "no image: $SIF is not set",
            "Load a container module first, or give an image: hpcmod site env --diff --image FILE",
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
    return compare_environments(environ, inside, image=read_facts(path).assigned)


def _print_diff(differences: tuple[Difference, ...], *, everything: bool, as_json: bool) -> None:
    shown = tuple(one for one in differences if everything or one.host != one.container)
    if as_json:
        print_json(EnvironmentChanges(shown))
        return
    for one in shown:
        print_text(terminal_line(f"{one.name}: {_visible(one.host)} -> {_visible(one.container)}  # {one.set_by}"))


def _visible(value: str | None) -> str:
    return "not set" if value is None else shlex.quote(value)
