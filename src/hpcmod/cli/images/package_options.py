"""The options of `hpcmod build` for packages that are added to a base image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from hpcmod.cli.containers import complete_file
from hpcmod.cli.packages.conda import channel_option, conda_option

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

FOR_PACKAGES = {
    "channels": "--channel",
    "index": "--index",
    "extra_index": "--extra-index",
    "no_index": "--no-index",
    "source_builds": "--build",
    "allow_replace": "--allow-replace",
}
"""Options that apply to --requirements and --conda only, by parameter."""

NOT_FOR_PACKAGES = {
    "offline": "--offline",
    "context": "--context",
    "arch": "--arch",
    "engine": "--engine",
    "printed": "--print",
    "compression": "--compression",
}
"""Options that do not apply to packages, besides those of recipes."""


def package_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name packages for --base, and say where pip and conda find them."""
    flags: list[Decorator] = [
        click.option(
            "-r",
            "--requirements",
            multiple=True,
            metavar="FILE",
            type=click.Path(path_type=Path),
            shell_complete=complete_file,
            help="Requirements file of packages to add to --base.",
        ),
        conda_option,
        channel_option,
        click.option("--index", metavar="URL", help="Package index for --requirements instead of pip's own setting."),
        click.option("--extra-index", multiple=True, metavar="URL", help="Further package index for --requirements."),
        click.option(
            "--no-index", is_flag=True, help="Take --requirements only from --wheel-dir: no network is needed."
        ),
        click.option(
            "--build", "source_builds", is_flag=True, help="Build required packages without a wheel, in the base."
        ),
        click.option(
            "--allow-replace",
            multiple=True,
            metavar="PACKAGE",
            help="Package of --base that --requirements may replace by another version.",
        ),
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command
