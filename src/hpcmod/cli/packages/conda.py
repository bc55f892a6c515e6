"""The options for conda packages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.cli.containers import complete_file
from hpcmod.cli.output import tell
from hpcmod.install.packages.importing import read_list
from hpcmod.model.packages.conda import DEFAULT_CHANNELS, NO_CONDA, CondaPart, parse_channels, parse_conda_specs
from hpcmod.model.packages.conda_file import parse_conda_file
from hpcmod.model.packages.requirement import NOTHING, Requirements, join
from hpcmod.model.packages.sources import LeftOut
from hpcmod.model.packages.state import State

conda_option = click.option(
    "--conda",
    "conda",
    multiple=True,
    metavar="PACKAGE|FILE",
    shell_complete=complete_file,
    help="conda package, as NAME or NAME=VERSION, or an environment.yml with its pip part.",
)
channel_option = click.option(
    "--channel",
    "channels",
    multiple=True,
    metavar="URL",
    help=f"conda channel: URL, name or directory (default: {', '.join(DEFAULT_CHANNELS)}).",
)


@dataclass(frozen=True)
class CondaWanted:
    """What the options for conda packages ask for."""

    part: CondaPart = NO_CONDA
    pip: Requirements = NOTHING
    """What the environment files list for pip."""
    left_out: tuple[LeftOut, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    """Variables that the environment files set."""


def read_conda_options(words: Sequence[str], channels: Sequence[str], *, own: bool = False) -> CondaWanted:
    """Return the packages that options ask for, with those that environment files list.

    Parameters
    ----------
    own
        Whether they are for an environment of their own, which may have Python, pip and variables.

    Raises
    ------
    BadInputError
        If one is not a package, or a channel is not a channel.
    """
    if channels and not words:
        raise click.UsageError("--channel is for --conda")
    paths = [word for word in words if word.endswith((".yml", ".yaml"))]
    files = [
        parse_conda_file(read_list(path), str(Path(path).absolute()), read_list, os.path.exists, own=own)
        for path in paths
    ]
    specs = parse_conda_specs(
        [*(word for word in words if word not in paths), *(spec for one in files for spec in one.specs)], python=own
    )
    named = [*channels, *(channel for one in files for channel in one.channels)]
    found = parse_channels(named, str(Path.cwd()), os.path.exists)
    return CondaWanted(
        CondaPart(specs, found) if specs else NO_CONDA,
        join(*(one.pip for one in files)),
        tuple(left for one in files for left in one.left_out),
        tuple(pair for one in files for pair in one.variables),
    )


def tell_conda(state: State) -> None:
    """Tell what conda would have done in addition to installing the packages of a state."""
    installed = {one.name for one in state.conda.packages}
    for name in sorted(state.conda.names - installed):
        tell(f"{name} is in the image")
    tell_not_run(state.conda)


def tell_not_run(part: CondaPart) -> None:
    """Tell which scripts conda would have run."""
    for one in part.packages:
        if one.not_run:
            tell(f"{one.name}: its scripts were not run: {', '.join(one.not_run)}")
