"""The command `hpcmod edit`: change a user's packages in the container, by hand."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click

from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import print_data, print_json, print_text, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.errors import CheckFailedError, NotFoundError
from hpcmod.core.process import TO_STDERR, call
from hpcmod.core.text.quote import sh_word
from hpcmod.machine.values.bind import Bind
from hpcmod.modules.values.place import USER_LAYER_IN_CONTAINER
from hpcmod.packages.builder import make_builder
from hpcmod.packages.cli.outputs import DiscardedEdit, EditedPackages, ShownEdit
from hpcmod.packages.cli.show import find_locked_changes, show_change, tell_active
from hpcmod.packages.cli.target import OwnSet, SetFlags, choose_data, find_set, package_options, tell_loaded
from hpcmod.packages.editing import CONSTRAINTS, Packing, begin_edit, discard_edit, hold_edit, pack_edit
from hpcmod.packages.sets import WritableState, find_edit, make_set

_BINDS = ("SINGULARITY_BINDPATH", "APPTAINER_BINDPATH")
_INSIDE = ("SINGULARITYENV_PIP_CONSTRAINT", "APPTAINERENV_PIP_CONSTRAINT")
_ALONE = ("SINGULARITYENV_PYTHONNOUSERSITE", "APPTAINERENV_PYTHONNOUSERSITE")
"""Without them, pip would not install again what is in ~/.local, which is not packed."""


@dataclass(frozen=True)
class EditFlags(SetFlags):
    """Arguments and options of `hpcmod edit`."""

    command: tuple[str, ...]
    discard: bool


@click.command("edit")
@package_options(EditedPackages, DiscardedEdit)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARGS]...]")
@click.option("--discard", is_flag=True, help="Discard the changes of an edit that failed.")
@with_flags(EditFlags)
def edit_verb(flags: EditFlags) -> None:
    """Edit your packages in the container, in a shell or with a command.

    pip and other programs can then change them; pip does not replace packages of the image. If the command succeeds,
    or you leave the shell, the result is packed into one file and becomes active: `hpcmod undo` restores the packages
    before. If the command fails, or you leave the shell with `exit 1`, nothing is packed, and the changes are kept for
    the next `hpcmod edit`. Until then, modules and jobs use your packages as they were.

    \b
    Examples:
      hpcmod edit PyTorch
      hpcmod edit PyTorch -- pip install -e ~/mycode
      hpcmod edit PyTorch --discard
    """
    if flags.command and flags.discard:
        raise click.UsageError("give a command or --discard, not both")
    own = find_set(flags)
    edit = find_edit(own.set, own.target.place.tag)
    if flags.discard:
        _discard(own, edit, as_json=flags.as_json)
        return
    builder = make_builder(os.environ, tell=tell)
    program = own.installed.program
    own.installed.check_program()
    is_first = not own.set.is_seen(own.target.place.tag)
    make_set(own.set, choose_data(own, None), tell)
    argv = [str(program), "exec", "--", *flags.command] if flags.command else [str(program), "shell", "--"]
    with terminate_cleanly():
        edit = begin_edit(own.target, own.set, builder)
        left = _say_what_is_left(own, edit)
        with hold_edit(own.set, edit, tell):
            try:
                status = _run(argv, edit, to_stderr=flags.as_json)
                done = None if status else pack_edit(own.target, own.set, builder)
            except BaseException:
                tell(left)
                raise
    if done is None:
        shown = " ".join(map(sh_word, flags.command)) if flags.command else "the shell"
        raise CheckFailedError(f"{shown} ended with status {status}, so nothing was packed", left)
    _report(own, done, as_json=flags.as_json)
    tell_loaded(own, is_first=is_first)


def _say_what_is_left(own: OwnSet, edit: WritableState) -> str:
    name = own.set.asked
    return (
        f"Your changes are in {edit.files}; modules and jobs use your packages as they were. To go on: hpcmod edit "
        f"{name}; to pack them as they are: hpcmod edit {name} -- true; to discard them: hpcmod edit {name} --discard"
    )


def _run(argv: Sequence[str], edit: WritableState, *, to_stderr: bool) -> int:
    """Run a program in the container, with the files of an edited state, and return its exit status."""
    bind = str(Bind(str(edit.files.resolve()), USER_LAYER_IN_CONTAINER))
    environ = (
        dict.fromkeys(_INSIDE, f"{USER_LAYER_IN_CONTAINER}/{CONSTRAINTS}")
        | dict(os.environ)
        | dict.fromkeys(_ALONE, "1")
    )
    for name in _BINDS:
        environ[name] = ",".join(filter(None, [bind, environ.get(name, "")]))
    with _leave_interrupts():
        return call(argv, env=environ, stdout=TO_STDERR if to_stderr else None, tied=True)


def _discard(own: OwnSet, edit: WritableState | None, *, as_json: bool) -> None:
    if edit is None:
        raise NotFoundError(
            f"no packages `{own.set.choice.shown}` for {own.target.module} are being edited",
            f"See: hpcmod packages {own.set.asked}",
        )
    discard_edit(own.set, own.target.place.tag, tell)
    if as_json:
        print_json(DiscardedEdit(own.target.module, own.set.choice.shown, ShownEdit.make(edit)))
        return
    print_data(edit.directory)
    tell(f"discarded the changes since {edit.time}")


def _report(own: OwnSet, done: Packing, *, as_json: bool) -> None:
    changes = find_locked_changes(done.before, done.edited.locked)
    if as_json:
        shown = show_change(own, before=done.before, state=done.state, changes=changes)
        print_json(EditedPackages(shown, done.edited.editable))
        return
    for change in changes:
        print_text(str(change))
    for package in done.edited.editable:
        tell(
            f"{package.name} is editable: its code stays in {package.path}, which must exist wherever you use these "
            "packages"
        )
    for name in done.edited.replaced:
        inside = own.target.find(name)
        version = inside.version if inside else ""
        tell(f"{name} {version} of the image is replaced, which may break packages built for it")
    tell_active(own, done.state)


@contextmanager
def _leave_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C while a child has the terminal: the child gets it too, and decides what it means."""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which the child would inherit
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
