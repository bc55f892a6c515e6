"""The options that tell pip where to find packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.cli.packages.target import SetFlags
from hpcmod.errors import NotFoundError
from hpcmod.model.packages.plan import PipOptions

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


@dataclass(frozen=True)
class IndexFlags(SetFlags):
    """Options of `package_options` and `index_options`."""

    index: str | None
    extra_index: tuple[str, ...]
    wheel_dirs: tuple[Path, ...]
    no_index: bool
    build: bool
    allow_replace: tuple[str, ...]
    dry_run: bool


def index_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say where pip finds packages."""
    flags: list[Decorator] = [
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
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def pip_options(flags: IndexFlags) -> PipOptions:
    """Return how pip looks for packages, from the options of `index_options`."""
    return make_pip_options(
        index=flags.index,
        extra_index=flags.extra_index,
        wheel_dirs=flags.wheel_dirs,
        no_index=flags.no_index,
        build=flags.build,
    )


def make_pip_options(
    *, index: str | None, extra_index: Sequence[str], wheel_dirs: Sequence[Path], no_index: bool, build: bool
) -> PipOptions:
    """Return how pip looks for packages.

    Raises
    ------
    NotFoundError
        If a directory of wheels does not exist.
    """
    missing = [place for place in wheel_dirs if not place.is_dir()]
    if missing:
        raise NotFoundError(f"--wheel-dir {missing[0]}: no such directory", "Choose another directory.")
    places = [str(place.absolute()) for place in wheel_dirs]
    words = [f"--index-url={index}"] if index else []
    words += [f"--extra-index-url={one}" for one in extra_index]
    words += [f"--find-links={one}" for one in places]
    words += ["--no-index"] if no_index else []
    return PipOptions(tuple(words), build, tuple(places))
