"""The commands `hpcmod edit` and `hpcmod pack`: a writable state of a user's packages for development."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from hpcmod.cli.flags import with_flags
from hpcmod.cli.output import print_data, print_json, print_text, tell
from hpcmod.cli.packages.show import describe_edit, find_locked_changes, print_change, tell_active, tell_other_edits
from hpcmod.cli.packages.target import Found, SetFlags, choose_data, find_set, package_options
from hpcmod.cli.signals import terminate_cleanly
from hpcmod.errors import NotFoundError
from hpcmod.install.packages.builder import make_builder
from hpcmod.install.packages.editing import (
    CONSTRAINTS,
    Packing,
    begin_edit,
    discard_edit,
    pack_edit,
    plan_packing,
)
from hpcmod.install.packages.edits import WritableState, find_edit
from hpcmod.install.packages.sets import make_set
from hpcmod.model.bind import Bind
from hpcmod.model.packages.place import USER_LAYER_IN_CONTAINER, edit_directory
from hpcmod.process import become

_BINDS = ("SINGULARITY_BINDPATH", "APPTAINER_BINDPATH")
_INSIDE = ("SINGULARITYENV_PIP_CONSTRAINT", "APPTAINERENV_PIP_CONSTRAINT")


@dataclass(frozen=True)
class EditFlags(SetFlags):
    """Options of `hpcmod edit`."""

    command: tuple[str, ...]
    discard: bool
    dry_run: bool


@dataclass(frozen=True)
class PackFlags(SetFlags):
    """Options of `hpcmod pack`."""

    dry_run: bool


@click.command("edit")
@package_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARGS]...]")
@click.option("--discard", is_flag=True, help="Remove the writable packages with all changes.")
@click.option("--dry-run", is_flag=True, help="Print what would be made or removed; change nothing.")
@with_flags(EditFlags)
def edit_verb(flags: EditFlags) -> None:
    """Edit your packages in the container, in a shell or with a command.

    pip then installs into a directory, which is kept until `hpcmod pack` packs it into one file again, or --discard
    removes it. Until then, modules and jobs use your packages as they were. pip does not replace packages of the image.

    \b
    Examples:
      hpcmod edit PyTorch
      hpcmod edit PyTorch -- pip install -e ~/mycode
      hpcmod edit PyTorch -- python -m pytest mycode
      hpcmod edit PyTorch --discard
    """
    if flags.command and (flags.discard or flags.as_json):
        raise click.UsageError(f"give a command or {'--discard' if flags.discard else '--json'}, not both")
    found = find_set(flags)
    edit = find_edit(found.set, found.target.place.tag)
    if edit is None and not flags.as_json:
        tell_other_edits(found)
    if flags.discard:
        _discard(found, edit, dry_run=flags.dry_run, as_json=flags.as_json)
        return
    is_new = edit is None
    if not flags.dry_run:
        make_set(found.set, choose_data(found, None))
        with terminate_cleanly():
            edit = begin_edit(found.target, found.set, make_builder(os.environ, starts=False), tell)
    if flags.as_json:
        _print_edit(found, edit, dry_run=flags.dry_run, discarded=False)
        return
    state = edit.base if edit else found.set.active_number(found.target.place.tag)
    what = f"state {state}" if state else "no packages"
    place = found.set.directory / edit_directory(found.target.place.tag)
    if edit is None:
        print_data(place)
        tell(f"would make {what} of `{found.set.choice.shown}` for {found.target.module} writable there")
        return
    if is_new:
        tell(f"{what} of `{found.set.choice.shown}` for {found.target.module} can be changed now; then: hpcmod pack")
    from hpcmod.cli.install.installed import on_a_terminal  # slow to import, and `undo` does not need it

    if flags.command or on_a_terminal():
        _start(found, edit, flags.command)
    print_data(edit.files)


def _start(found: Found, edit: WritableState, command: Sequence[str]) -> None:
    """Replace this process by a shell or a command in the container, with the files of an edited state."""
    program = found.installed.program
    found.installed.check_program()
    bind = str(Bind(str(edit.files.resolve()), USER_LAYER_IN_CONTAINER))
    for name in _BINDS:
        os.environ[name] = ",".join(filter(None, [bind, os.environ.get(name, "")]))
    for name in _INSIDE:
        os.environ.setdefault(name, f"{USER_LAYER_IN_CONTAINER}/{CONSTRAINTS}")
    become([str(program), "exec", "--", *command] if command else [str(program), "shell", "--"])


def _discard(found: Found, edit: WritableState | None, *, dry_run: bool, as_json: bool) -> None:
    if edit is None:
        raise NotFoundError(
            f"no packages `{found.set.choice.shown}` for {found.target.module} are being edited",
            f"See: hpcmod packages {found.name}",
        )
    if not dry_run:
        discard_edit(found.set, found.target.place.tag, tell)
    if as_json:
        _print_edit(found, edit, dry_run=dry_run, discarded=True)
        return
    print_data(edit.directory)
    tell(f"{'would remove' if dry_run else 'removed'} the changes since {edit.time}")


def _print_edit(found: Found, edit: WritableState | None, *, dry_run: bool, discarded: bool) -> None:
    print_json(
        module=found.target.module,
        set=found.set.choice.shown,
        directory=str(found.set.directory),
        dry_run=dry_run,
        edited=describe_edit(edit),
        discarded=discarded,
    )


@click.command("pack")
@package_options
@click.option("--dry-run", is_flag=True, help="Print what has changed; pack nothing.")
@with_flags(PackFlags)
def pack_verb(flags: PackFlags) -> None:
    """Pack the packages that you edited into one file.

    They become active, and the directory of `hpcmod edit` is removed. `hpcmod undo` restores the packages before that.

    \b
    Example:
      hpcmod pack PyTorch
    """
    found = find_set(flags)
    if not flags.as_json and find_edit(found.set, found.target.place.tag) is None:
        tell_other_edits(found)
    if flags.dry_run:
        done, _ = plan_packing(found.target, found.set, make_builder(os.environ, starts=False))
    else:
        with terminate_cleanly():
            done = pack_edit(found.target, found.set, make_builder(os.environ), tell)
    changes = find_locked_changes(done.before, done.edited.locked)
    if flags.as_json:
        editable = [asdict(one) for one in done.edited.editable]
        print_change(
            found, before=done.before, state=done.state, changes=changes, dry_run=flags.dry_run, editable=editable
        )
        return
    for change in changes:
        print_text(str(change))
    _tell_limits(found, done)
    if done.state:
        tell_active(found, done.state)


def _tell_limits(found: Found, done: Packing) -> None:
    for one in done.edited.editable:
        tell(f"{one.name} is editable: its code stays in {one.path}, which must exist wherever you use these packages")
    for name in done.edited.replaced:
        inside = found.target.find(name)
        tell(
            f"{name} {inside.version if inside else ''} of the image is replaced, which may break packages built for it"
        )
