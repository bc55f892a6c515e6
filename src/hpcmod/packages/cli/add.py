"""The commands that change a user's packages: add, drop."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import click

from hpcmod.core.cli.arguments import complete_file
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import print_json, print_text, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.errors import NotFoundError
from hpcmod.core.text.quote import sh_word
from hpcmod.packages.builder import make_builder
from hpcmod.packages.changing import make_change, plan_change
from hpcmod.packages.cli.importing import add_from
from hpcmod.packages.cli.outputs import ImportedPackages, PackagesChange
from hpcmod.packages.cli.show import find_changes, show_change, tell_active, tell_programs
from hpcmod.packages.cli.target import Found, SetFlags, choose_data, find_set, package_options, tell_hidden, tell_loaded
from hpcmod.packages.cli.wanted import PipFlags, WantedFlags, index_options, read_wanted, tell_conda, wanted_options
from hpcmod.packages.sets import make_set
from hpcmod.packages.values.files import PlacedFiles, parse_placed
from hpcmod.packages.values.plan import PackageChange, StatePlan, render_state_plan


@dataclass(frozen=True)
class DropFlags(PipFlags, SetFlags):
    """Arguments and options of `hpcmod drop`."""

    packages: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True)
class AddFlags(WantedFlags, DropFlags):
    """Arguments and options of `hpcmod add`."""

    placed: tuple[str, ...]
    origin: str | None
    without: tuple[str, ...]
    prefix: Path | None


@click.command("add")
@package_options(PackagesChange, ImportedPackages)
@click.argument("packages", nargs=-1)
@wanted_options
@click.option(
    "--files",
    "placed",
    multiple=True,
    metavar="DIRECTORY:/user-software/PLACE",
    shell_complete=complete_file,
    help="Plain files to copy, for example a library of R or Julia, and where the container sees them.",
)
@click.option(
    "--from",
    "origin",
    metavar="PATH",
    shell_complete=complete_file,
    help="Packages of a user-software directory or squashfs, a virtual environment, or pip freeze.",
)
@click.option("--without", multiple=True, metavar="PACKAGE", help="With --from: package to leave out.")
@index_options
@click.option(
    "--prefix",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Directory for a new set (default: the site's for users' images, else in $HOME).",
)
@click.option("--dry-run", is_flag=True, help="Print what would be installed, and how; install nothing.")
@with_flags(AddFlags)
def add_verb(flags: AddFlags) -> None:
    """Add Python packages to a container.

    pip in the container installs them next to the image, which is not changed. They are packed into one file, and every
    container that starts after that has them. --conda installs conda packages, also programs that are not Python.
    Packages of the image, and those you added before, keep their versions.
    --from takes over what you have elsewhere: versions are kept where they fit, and what becomes of each is reported.

    \b
    Examples:
      hpcmod add PyTorch einops 'transformers<5'
      hpcmod add PyTorch -r requirements.txt --wheel-dir wheels --no-index
      hpcmod add PyTorch --conda samtools=1.19 --channel bioconda --channel conda-forge
      hpcmod add PyTorch --conda environment.yml
      hpcmod add PyTorch --lock pylock.toml
      hpcmod add PyTorch --from ~/old-venv
      hpcmod add PyTorch --files ~/R/library:/user-software/R
    """
    words = ["add", *flags.packages]
    for option, values in (
        ("-r", flags.requirement_files),
        ("--conda", flags.conda),
        ("--channel", flags.channels),
        ("--files", flags.placed),
        ("--lock", filter(None, [flags.lock_file])),
    ):
        words += [word for value in values for word in (option, value)]
    if flags.origin:
        if len(words) > 1:
            raise click.UsageError("give --from alone, and other packages in a second command")
        _add_from(flags, flags.origin)
        return
    if flags.without:
        raise click.UsageError("--without is for --from")
    if flags.lock_file and flags.placed:
        raise click.UsageError("--lock has all of the packages: give no others")
    wanted = read_wanted(flags, flags.packages)
    files = tuple(_parse_placed(text) for text in flags.placed)
    if not (wanted.adds or files):
        raise click.UsageError(
            "give packages, --conda PACKAGE, -r FILE, --lock FILE, --from PATH or --files DIRECTORY:/PLACE"
        )
    change = replace(wanted, files=files, action=" ".join(map(sh_word, words)))
    change_set(find_set(flags), change, flags, prefix=flags.prefix)


@click.command("drop")
@package_options(PackagesChange)
@click.argument("packages", nargs=-1, required=True)
@index_options
@click.option("--dry-run", is_flag=True, help="Print what would be installed, and how; change nothing.")
@with_flags(DropFlags)
def drop_verb(flags: DropFlags) -> None:
    """Remove packages that you added to a container.

    Packages that only they needed are removed too; plain files are named by their place: /user-software/R. The state
    before is kept: `hpcmod undo` brings it back.

    \b
    Example:
      hpcmod drop PyTorch einops
    """
    change = PackageChange(
        dropped=tuple(name for name in flags.packages if not name.startswith("/")),
        dropped_files=tuple(name for name in flags.packages if name.startswith("/")),
        pip=flags.pip_options(),
        allowed=flags.allow_replace,
        action=" ".join(map(sh_word, ["drop", *flags.packages])),
    )
    change_set(find_set(flags), change, flags, prefix=None)


def _add_from(flags: AddFlags, origin: str) -> None:
    left_out = [word for name in flags.without for word in ("--without", name)]
    words = ["add", "--from", str(Path(origin).absolute()), *left_out]
    change = PackageChange(
        dropped=flags.without,
        pip=flags.pip_options(),
        allowed=flags.allow_replace,
        action=" ".join(map(sh_word, words)),
    )
    add_from(find_set(flags), origin, change, prefix=flags.prefix, dry_run=flags.dry_run, as_json=flags.as_json)


def change_set(found: Found, change: PackageChange, flags: DropFlags, *, prefix: Path | None) -> None:
    """Make a change of a set, or print its plan, and report what has changed."""
    data = choose_data(found, prefix)
    is_first = found.set.active_number(found.target.place.tag) is None
    if not change.drops:
        tell_hidden(found, is_first=is_first)
    is_repeated = change.is_done(found.set.active(found.target.place.tag))
    plan = None if is_repeated else plan_change(found.target, found.set, change)
    if flags.dry_run:
        _print_plan(found, plan, as_json=flags.as_json)
        return
    if change.drops and not found.set.exists:
        raise NotFoundError(
            f"you have added no packages to {found.target.module}", f"See: hpcmod packages {found.name}"
        )
    builder = make_builder(os.environ, tell=tell)
    make_set(found.set, data)
    if not is_repeated:
        tell(f"installing with pip of {found.target.module} ...")
    with terminate_cleanly():
        before, state = make_change(found.target, found.set, change, builder, tell)
    changes = find_changes(before, state)
    if flags.as_json:
        print_json(show_change(found, before=before, state=state, changes=changes))
    else:
        for one in changes:
            print_text(str(one))
        for pin in state.from_image:
            tell(f"{pin.replace('==', ' ')} is in the image")
        tell_conda(state)
        tell_active(found, state)
        tell_programs(found, before, state)
    tell_loaded(found, is_first=is_first)


def _print_plan(found: Found, plan: StatePlan | None, *, as_json: bool) -> None:
    lines = list(render_state_plan(plan)) if plan else []
    if as_json:
        active = found.set.active(found.target.place.tag)
        print_json(show_change(found, before=active, dry_run=True, plan=lines))
        return
    for line in lines:
        print_text(line)


def _parse_placed(text: str) -> PlacedFiles:
    found = parse_placed(text, str(Path.cwd()))
    if not os.path.exists(found.source):  # noqa: PTH110 - as parse_typed
        raise NotFoundError(f"{found.source}: no such file or directory", "Check the path before the colon in --files.")
    return found
