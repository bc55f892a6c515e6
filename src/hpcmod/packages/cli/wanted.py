"""The options of `add` and `bake` that name packages of pip and conda, and say where pip finds them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.core.cli.arguments import complete_file, with_options
from hpcmod.core.cli.output import tell
from hpcmod.core.errors import NotFoundError
from hpcmod.packages.importing import read_list, read_requirements
from hpcmod.packages.values.conda import (
    DEFAULT_CHANNELS,
    NO_CONDA,
    CondaPackage,
    CondaPart,
    parse_channels,
    parse_conda_specs,
)
from hpcmod.packages.values.conda_file import parse_conda_file
from hpcmod.packages.values.lockfile import parse_package_lock
from hpcmod.packages.values.plan import PackageChange, PipOptions
from hpcmod.packages.values.requirement import Requirements, join, parse_file, parse_typed
from hpcmod.packages.values.state import State


@dataclass(frozen=True)
class PipFlags:
    """Options of `index_options`."""

    index: str | None
    extra_index: tuple[str, ...]
    wheel_dirs: tuple[Path, ...]
    no_index: bool
    build: bool
    allow_replace: tuple[str, ...]

    def pip_options(self) -> PipOptions:
        """Return how pip looks for packages.

        Raises NotFoundError if a directory of wheels does not exist.
        """
        missing = [directory for directory in self.wheel_dirs if not directory.is_dir()]
        if missing:
            raise NotFoundError(f"--wheel-dir {missing[0]}: no such directory", "Choose another directory.")
        places = [str(directory.absolute()) for directory in self.wheel_dirs]
        words = [f"--index-url={self.index}"] if self.index else []
        words += [f"--extra-index-url={url}" for url in self.extra_index]
        words += [f"--find-links={directory}" for directory in places]
        words += ["--no-index"] if self.no_index else []
        return PipOptions(tuple(words), self.build)

    def removal(self, dropped: tuple[str, ...], action: str) -> PackageChange:
        """Return a change that removes packages; `action` is for the history.

        Raises NotFoundError as `pip_options`.
        """
        return PackageChange(dropped=dropped, pip=self.pip_options(), allowed=self.allow_replace, action=action)


@dataclass(frozen=True)
class WantedFlags(PipFlags):
    """Options of `wanted_options` and `index_options`."""

    requirement_files: tuple[str, ...]
    conda: tuple[str, ...]
    channels: tuple[str, ...]
    lock_file: str | None


index_options = with_options(
    click.option("--index", metavar="URL", help="Package index instead of pip's own setting."),
    click.option("--extra-index", multiple=True, metavar="URL", help="Additional package index."),
    click.option(
        "--wheel-dir",
        "--find-links",
        "wheel_dirs",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIRECTORY",
        help="Directory of wheels.",
    ),
    click.option("--no-index", is_flag=True, help="Use only --wheel-dir: no network is needed."),
    click.option("--build", is_flag=True, help="Build packages without a wheel, in the container."),
    click.option(
        "--allow-replace",
        multiple=True,
        metavar="PACKAGE",
        help="Package of the image that may be replaced by another version.",
    ),
)
"""Options that say where pip finds packages."""

wanted_options = with_options(
    click.option(
        "-r",
        "--requirement",
        "requirement_files",
        multiple=True,
        metavar="FILE",
        shell_complete=complete_file,
        help="Requirements file.",
    ),
    click.option(
        "--conda",
        multiple=True,
        metavar="PACKAGE|FILE",
        shell_complete=complete_file,
        help="conda package, as NAME or NAME=VERSION, or an environment.yml with its pip part.",
    ),
    click.option(
        "--channel",
        "channels",
        multiple=True,
        metavar="URL",
        help=f"conda channel: URL, name or directory (default: {', '.join(DEFAULT_CHANNELS)}).",
    ),
    click.option(
        "--lock", "lock_file", metavar="FILE", shell_complete=complete_file, help="Lock file to install exactly."
    ),
)
"""Options that name packages."""


def read_wanted(flags: WantedFlags, typed: Sequence[str] = (), *, own: bool = False) -> PackageChange:
    """Return the packages that options and files name.

    `typed`: Requirements on the command line.
    `own`: Whether they are for a new image, which may have Python and pip of conda.

    Raises HpcmodError if something is not a package, a channel, or a file.
    """
    pip, allowed = flags.pip_options(), flags.allow_replace
    if flags.lock_file:
        if typed or flags.requirement_files or flags.conda or flags.channels:
            raise click.UsageError("--lock has all of the packages: give no others")
        lock = parse_package_lock(read_list(flags.lock_file), flags.lock_file)
        of_state = lock.state
        return PackageChange(
            added=Requirements(of_state.requirements),
            conda=of_state.conda,
            locked=lock.lines,
            requires_python=lock.requires_python,
            environments=lock.environments,
            pip=pip,
            allowed=(*allowed, *of_state.replaces),
        )
    if flags.channels and not flags.conda:
        raise click.UsageError("--channel is for --conda")
    here = str(Path.cwd())
    paths = [word for word in flags.conda if word.endswith((".yml", ".yaml"))]
    files = [
        parse_conda_file(read_list(path), str(Path(path).absolute()), read_requirements, os.path.exists, own=own)
        for path in paths
    ]
    for left in (left for file in files for left in file.left_out):
        tell(f"left out: {left.name} ({left.reason})")
    words = [word for word in flags.conda if word not in paths]
    specs = parse_conda_specs([*words, *(spec for file in files for spec in file.specs)], python=own)
    named = [*flags.channels, *(channel for file in files for channel in file.channels)]
    channels = parse_channels(named, here, os.path.exists)
    listed = [
        parse_file(str(Path(path).absolute()), read_requirements, os.path.exists, here)
        for path in flags.requirement_files
    ]
    added = join(*(file.pip for file in files), parse_typed(tuple(typed), here, os.path.exists), *listed)
    part = CondaPart(specs, channels) if specs else NO_CONDA
    return PackageChange(added=added, conda=part, pip=pip, allowed=allowed)


def tell_conda(state: State) -> None:
    """Tell what conda would have done in addition to installing the packages of a state."""
    installed = {package.name for package in state.conda.packages}
    for name in sorted(state.conda.names - installed):
        tell(f"{name} is in the image")
    tell_not_run(state.conda.packages)


def tell_not_run(packages: Sequence[CondaPackage]) -> None:
    """Tell which scripts conda would have run."""
    for package in packages:
        if package.not_run:
            tell(f"{package.name}: its scripts were not run: {', '.join(package.not_run)}")
