"""The commands for the states of a package set: packages, undo."""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from hpcmod.catalogue import complete_container
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import format_size, print_data, print_json, print_table, print_text, tell
from hpcmod.core.errors import NotFoundError
from hpcmod.core.text.quote import sh_word
from hpcmod.packages.builder import make_builder
from hpcmod.packages.changing import KEPT, collect, undo_change, use
from hpcmod.packages.cli.outputs import (
    PackagesChange,
    PackagesList,
    RemovedState,
    RemovedStates,
    ShownEdit,
    ShownState,
    StateDifference,
)
from hpcmod.packages.cli.show import count_packages, find_changes, print_packages, show_change
from hpcmod.packages.cli.target import OwnSet, SetFlags, find_set, package_options, set_options
from hpcmod.packages.sets import find_edit, find_names, find_sets
from hpcmod.packages.values.lockfile import render_package_lock
from hpcmod.packages.values.state import State

_ONE_OF = ("history", "diff", "lock", "use", "gc")


@dataclass(frozen=True)
class PackagesFlags(SetFlags):
    """Options of `hpcmod packages`."""

    history: bool
    diff: tuple[int, int] | None
    lock: bool
    use: int | None
    gc: bool
    keep: int
    dry_run: bool


@click.command("packages")
@package_options(PackagesList, PackagesChange, StateDifference, RemovedStates)
@click.option("--history", is_flag=True, help="List all states, newest last.")
@click.option("--diff", nargs=2, type=int, metavar="STATE STATE", help="Compare two states.")
@click.option("--lock", is_flag=True, help="Print a lock file: versions and hashes of all packages.")
@click.option("--use", type=int, metavar="STATE", help="Make a state active.")
@click.option("--gc", is_flag=True, help="Remove old states, except active ones.")
@click.option(
    "--keep",
    type=click.IntRange(0),
    default=KEPT,
    metavar="N",
    help=f"Newest states kept by --gc (default: {KEPT}).",
)
@click.option("--dry-run", is_flag=True, help="With --gc: print what would be removed; remove nothing.")
@with_flags(PackagesFlags)
def packages_verb(flags: PackagesFlags) -> None:
    """Show the packages that you added to a container.

    Every change makes a new state, and old states are kept until --gc.

    \b
    Examples:
      hpcmod packages PyTorch
      hpcmod packages PyTorch --history
      hpcmod packages PyTorch --lock > pylock.toml
    """
    chosen = [name for name in _ONE_OF if getattr(flags, name) not in (None, False)]
    if len(chosen) > 1:
        raise click.UsageError(f"give only one of {', '.join(f'--{name}' for name in chosen)}")
    own = find_set(flags, even_retired=True)
    if flags.gc:
        _collect(own, keep=flags.keep, dry_run=flags.dry_run, as_json=flags.as_json)
    elif flags.use is not None:
        state = use(own.target, _existing(own).set, flags.use, tell)
        _print_switched(own, None, state, as_json=flags.as_json)
    elif flags.diff:
        _print_difference(_existing(own), *flags.diff, as_json=flags.as_json)
    elif flags.lock and not flags.as_json:
        print_data(render_package_lock(_active(own)), nl=False)
    elif flags.history and not flags.as_json:
        _print_history(_existing(own))
    else:
        _print_state(own, flags)


@dataclass(frozen=True)
class UndoFlags(SetFlags):
    """Options of `hpcmod undo`."""

    dry_run: bool


@click.command("undo")
@set_options(PackagesChange)
@click.argument("container", metavar="[NAME[/VERSION]]", default="", shell_complete=complete_container)
@click.option("--dry-run", is_flag=True, help="Print what would change; change nothing.")
@with_flags(UndoFlags)
def undo_verb(flags: UndoFlags) -> None:
    """Undo the last change of your packages for a container.

    The packages that you had before become active again. A change of a site's catalogue is undone by
    `hpcmod catalogue undo`.

    \b
    Example:
      hpcmod undo PyTorch
    """
    if not flags.container or flags.container.isdecimal():
        known = " or ".join(f"hpcmod undo {sh_word(name)}" for name in find_names(os.environ)) or "hpcmod undo NAME"
        number = f" {flags.container}" if flags.container else ""
        raise click.UsageError(
            f"name a container to undo the last change of your packages: {known}\n"
            f"To undo a change of the site's catalogue: hpcmod catalogue undo{number}"
        )
    own, as_json = find_set(flags), flags.as_json
    active = _active(own)
    if flags.dry_run:
        previous = own.set.previous_number(active)
        before = own.set.read(previous) if previous is not None else None
        _print_switched(own, active, before, as_json=as_json, dry_run=True)
        return
    before, state = undo_change(own.target, own.set, make_builder(os.environ, starts=False, tell=tell))
    _print_switched(own, before, state, as_json=as_json)


def _existing(own: OwnSet) -> OwnSet:
    if not own.set.numbers():
        known = ", ".join(owned.choice.name for owned in find_sets(own.name, os.environ) if owned.numbers())
        more = f"; your sets: {known}" if known else ""
        raise NotFoundError(
            f"you have no packages `{own.set.choice.shown}` for {own.target.module}{more}",
            f"Add some: hpcmod add {own.set.asked} PACKAGE",
        )
    return own


def _active(own: OwnSet) -> State:
    state = _existing(own).set.active(own.target.place.tag)
    if state is None:
        raise NotFoundError(
            f"none of your packages `{own.set.choice.shown}` fit the image of {own.target.module}",
            f"Rebuild them for it: hpcmod rebase {own.set.asked}; or add some: hpcmod add {own.set.asked} PACKAGE",
        )
    return state


def _print_state(own: OwnSet, flags: PackagesFlags) -> None:
    edit = find_edit(own.set, own.target.place.tag)
    has_state = not (edit and edit.base is None) and (own.set.exists or not flags.as_json)
    state = _active(own) if has_state else None
    if flags.as_json:
        states = own.set.states() if flags.history else []
        listed = PackagesList(
            module=own.target.module,
            set=own.set.choice.shown,
            sets=tuple(other.choice.name for other in find_sets(own.name, os.environ)),
            directory=own.set.directory,
            state=ShownState.make(own.set, state) if state else None,
            history=tuple(ShownState.make(own.set, earlier) for earlier in states),
            lock=render_package_lock(state) if state and flags.lock else "",
            edited=ShownEdit.make(edit) if edit else None,
        )
        print_json(listed)
    elif state:
        print_packages(state)
        tell(
            f"state {state.number} of `{own.set.choice.shown}` for {own.target.module}: "
            f"{count_packages(state.count)}, {format_size(state.size)}; the image has {len(own.target.packages)} more"
        )
    if edit and not flags.as_json:
        base = f"state {edit.base}" if edit.base else "no packages"
        finish = (
            f"to finish: hpcmod edit {own.set.asked}; to discard the changes: hpcmod edit {own.set.asked} --discard"
        )
        if own.set.is_edited_by_others(own.target.place.tag):
            finish = f"ask {edit.user} to finish"
        tell(f"being edited since {edit.time} by {edit.user}, from {base}, in {edit.files}; {finish}")


def _print_history(own: OwnSet) -> None:
    """Print one line for each state; in the user's own set all are of this user."""
    rows = [
        [
            f"{state.number}{' *' if own.set.active_number(state.tag) == state.number else ''}",
            state.origin.time[:10],
            *([state.origin.user] if own.set.choice.directory else []),
            state.origin.module.partition("/")[2],
            str(state.count),
            format_size(state.size),
            state.origin.action,
        ]
        for state in own.set.states()
    ]
    user = ["user"] if own.set.choice.directory else []
    print_table(("state", "since", *user, "version", "packages", "size", "action"), rows, cut=True)


def _print_difference(own: OwnSet, first: int, second: int, *, as_json: bool) -> None:
    before, after = own.set.read(first), own.set.read(second)
    changes = find_changes(before, after)
    if as_json:
        print_json(StateDifference(own.target.module, own.set.choice.shown, first, second, changes))
        return
    for change in changes:
        print_text(str(change))
    if not changes:
        tell(f"states {first} and {second} have the same packages")


def _print_switched(
    own: OwnSet, before: State | None, state: State | None, *, as_json: bool, dry_run: bool = False
) -> None:
    changes = find_changes(before, state) if before and state else ()
    if as_json:
        print_json(show_change(own, before=before, state=state, changes=changes, dry_run=dry_run))
        return
    for change in changes:
        print_text(str(change))
    shown = f"state {state.number}" if state else "a state without packages"
    tell(f"{shown} of `{own.set.choice.shown}` for {own.target.module} {'would be' if dry_run else 'is'} active")


def _collect(own: OwnSet, *, keep: int, dry_run: bool, as_json: bool) -> None:
    removed = collect(_existing(own).set, keep=keep, tell=tell, dry_run=dry_run)
    if as_json:
        states = tuple(RemovedState(number, size) for number, size in removed)
        print_json(RemovedStates(own.target.module, own.set.choice.shown, dry_run, states))
        return
    for number, size in removed:
        print_text(f"{number}  {format_size(size)}")
    total = format_size(sum(size for _, size in removed)) if removed else "nothing"
    tell(f"{'would free' if dry_run else 'freed'} {total}")
