"""The options for conda packages."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from hpcmod.cli.output import tell
from hpcmod.model.packages.conda import DEFAULT_CHANNELS, NO_CONDA, CondaPart, parse_channels, parse_conda_specs
from hpcmod.model.packages.state import State

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

conda_option = click.option(
    "--conda", "conda", multiple=True, metavar="PACKAGE", help="conda package, as NAME or NAME=VERSION."
)
channel_option = click.option(
    "--channel",
    "channels",
    multiple=True,
    metavar="URL",
    help=f"conda channel: URL, name or directory (default: {', '.join(DEFAULT_CHANNELS)}).",
)


def read_conda_options(specs: Sequence[str], channels: Sequence[str]) -> CondaPart:
    """Return the conda packages that options ask for.

    Raises
    ------
    BadInputError
        If one is not a package, or a channel is not a channel.
    """
    if channels and not specs:
        raise click.UsageError("--channel is for --conda")
    if not specs:
        return NO_CONDA
    return CondaPart(parse_conda_specs(specs), parse_channels(channels, str(Path.cwd()), os.path.exists))


def tell_conda(state: State) -> None:
    """Tell what conda would have done in addition to installing the packages of a state."""
    installed = {one.name for one in state.conda.packages}
    for name in sorted(state.conda.names - installed):
        tell(f"{name} is in the image")
    for one in state.conda.packages:
        if one.not_run:
            tell(f"{one.name}: its scripts were not run: {', '.join(one.not_run)}")
