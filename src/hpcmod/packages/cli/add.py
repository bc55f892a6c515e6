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
from hpcmod.core.text.quote import sh_word
from hpcmod.packages.builder import make_builder
from hpcmod.packages.changing import make_change, plan_change
from hpcmod.packages.cli.outputs import ImportedPackages, PackagesChange
from hpcmod.packages.cli.rebase import refuse
from hpcmod.packages.cli.show import (
    count_packages,
    find_changes,
    show_change,
    tell_active,
    tell_left_behind,
    tell_programs,
)
from hpcmod.packages.cli.target import (
    OwnSet,
    SetFlags,
    choose_data,
    find_set,
    package_options,
    tell_hidden,
    tell_loaded,
)
from hpcmod.packages.cli.wanted import PipFlags, WantedFlags, index_options, read_wanted, tell_conda, wanted_options
from hpcmod.packages.importing import import_packages, plan_import, read_source
from hpcmod.packages.sets import make_set
from hpcmod.packages.values.compare import SAME
from hpcmod.packages.values.plan import PackageChange, StatePlan, render_state_plan


@dataclass(frozen=True)
class DropFlags(PipFlags, SetFlags):
    """Arguments and options of `hpcmod drop`."""

    packages: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True)
class AddFlags(WantedFlags, DropFlags):
    """Arguments and options of `hpcmod add`."""

    origin: str | None
    without: tuple[str, ...]
    prefix: Path | None


@click.command("add")
@package_options(PackagesChange, ImportedPackages)
@click.argument("packages", nargs=-1)
@wanted_options
@click.option(
    "--from",
    "origin",
    metavar="FILE",
    shell_complete=complete_file,
    help="Packages of a file that `pip freeze` wrote.",
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
    --from takes over what you have elsewhere, as `pip freeze` lists it: versions are kept where they fit, and what
    becomes of each is reported.

    \b
    Examples:
      hpcmod add PyTorch einops 'transformers<5'
      hpcmod add PyTorch -r requirements.txt --wheel-dir wheels --no-index
      hpcmod add PyTorch --conda samtools=1.19 --channel bioconda --channel conda-forge
      hpcmod add PyTorch --conda environment.yml
      hpcmod add PyTorch --lock pylock.toml
      hpcmod add PyTorch --from frozen.txt
    """
    words = ["add", *flags.packages]
    for option, values in (
        ("-r", flags.requirement_files),
        ("--conda", flags.conda),
        ("--channel", flags.channels),
        ("--lock", filter(None, [flags.lock_file])),
    ):
        words += [word for value in values for word in (option, value)]
    if flags.origin:
        if len(words) > 1:
            raise click.UsageError("give --from alone, and other packages in a second command")
        if flags.origin.endswith((".yml", ".yaml")):
            raise click.UsageError(f"{flags.origin} is for --conda, with its pip part")
        _add_from(flags, flags.origin)
        return
    if flags.without:
        raise click.UsageError("--without is for --from")
    wanted = read_wanted(flags, flags.packages)
    if not wanted.adds:
        raise click.UsageError("give packages, --conda PACKAGE, -r FILE, --lock FILE or --from FILE")
    change = replace(wanted, action=" ".join(map(sh_word, words)))
    _change_set(find_set(flags), change, flags, prefix=flags.prefix)


@click.command("drop")
@package_options(PackagesChange)
@click.argument("packages", nargs=-1, required=True)
@index_options
@click.option("--dry-run", is_flag=True, help="Print what would be installed, and how; change nothing.")
@with_flags(DropFlags)
def drop_verb(flags: DropFlags) -> None:
    """Remove packages that you added to a container.

    Packages that only they needed are removed too. The state before is kept: `hpcmod undo` brings it back.

    \b
    Example:
      hpcmod drop PyTorch einops
    """
    change = flags.removal(flags.packages, " ".join(map(sh_word, ["drop", *flags.packages])))
    _change_set(find_set(flags), change, flags, prefix=None)


def _add_from(flags: AddFlags, origin: str) -> None:
    """Take over the packages of a list, or print what that would do, and report what becomes of each."""
    left_out = [word for name in flags.without for word in ("--without", name)]
    words = ["add", "--from", str(Path(origin).absolute()), *left_out]
    change = flags.removal(flags.without, " ".join(map(sh_word, words)))
    own = find_set(flags)
    data = choose_data(own, flags.prefix)
    source = read_source(Path(origin))
    builder = make_builder(os.environ, tell=tell)
    is_first = not own.set.is_seen(own.target.place.tag)
    if not flags.as_json:
        for left in source.left_out:
            tell(f"not taken over: {left.name} ({left.reason})")
    tell(f"resolving {count_packages(len(source.asked.lines))} with pip of {own.target.module} ...")
    with terminate_cleanly():
        if flags.dry_run:
            rebase, state = plan_import(own.target, own.set, source, change, builder), None
        else:
            make_set(own.set, data, tell)
            rebase, state = import_packages(own.target, own.set, source, change, builder)
    if not flags.as_json:
        for difference in rebase.differences:
            print_text(str(difference))
        same = sum(difference.verdict == SAME for difference in rebase.differences)
        tell(f"{same} of {len(rebase.differences)} packages keep their versions")
    if rebase.failures:
        command = f"hpcmod add {own.set.asked} --from {sh_word(origin)}"
        refuse(own, rebase, command, without=flags.without, as_json=flags.as_json)
    if flags.as_json:
        parent = rebase.plan.parent
        before = parent if parent and parent.number else None
        shown = show_change(own, before=before, state=state, changes=rebase.differences, dry_run=flags.dry_run)
        print_json(ImportedPackages(shown, source.left_out))
    elif state:
        tell_active(own, state)
    if state:
        if is_first:
            tell_left_behind(own, state)
        tell_loaded(own, is_first=is_first)


def _change_set(own: OwnSet, change: PackageChange, flags: DropFlags, *, prefix: Path | None) -> None:
    """Make a change of a set, or print its plan, and report what has changed."""
    data = choose_data(own, prefix)
    is_first = not own.set.is_seen(own.target.place.tag)
    if is_first and not change.dropped:
        tell_hidden(own)
    is_repeated = change.is_done(own.set.active(own.target.place.tag))
    plan = None if is_repeated else plan_change(own.target, own.set, change)
    if flags.dry_run:
        _print_plan(own, plan, as_json=flags.as_json)
        return
    own.set.check_not_edited(own.target.place.tag)
    builder = make_builder(os.environ, tell=tell)
    make_set(own.set, data, tell)
    if not is_repeated:
        tell(f"installing with pip of {own.target.module} ...")
    with terminate_cleanly():
        before, state = make_change(own.target, own.set, change, builder)
    changes = find_changes(before, state)
    if flags.as_json:
        print_json(show_change(own, before=before, state=state, changes=changes))
    else:
        for difference in changes:
            print_text(str(difference))
        for pin in state.from_image:
            tell(f"{pin.replace('==', ' ')} is in the image")
        tell_conda(state)
        tell_active(own, state)
        tell_programs(own, before, state)
    if is_first:
        tell_left_behind(own, state)
    tell_loaded(own, is_first=is_first)


def _print_plan(own: OwnSet, plan: StatePlan | None, *, as_json: bool) -> None:
    lines = list(render_state_plan(plan, str(own.set.directory))) if plan else []
    if as_json:
        active = own.set.active(own.target.place.tag)
        print_json(show_change(own, before=active, dry_run=True, plan=lines))
        return
    for line in lines:
        print_text(line)
