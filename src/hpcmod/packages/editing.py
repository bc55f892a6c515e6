"""Edit a state: its files as a writable directory for development, which becomes one file again.

The directory is in the set, next to the states, and has two entries: the files, which a container sees at
/user-software, and a record. Modules and jobs use the active state until the directory is packed, which is when the
command that edits has succeeded.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.errors import BusyError, NotFoundError
from hpcmod.core.fs.replacing import replacing_directory
from hpcmod.core.fs.temporary import PRIVATE, temporary_name
from hpcmod.core.lock import hold, read_holder
from hpcmod.core.values.json_form import json_form
from hpcmod.images import unpack
from hpcmod.modules.values.place import edit_directory, state_file
from hpcmod.packages.builder import Builder
from hpcmod.packages.building import check_room_for, pack_layer, scratch_layer, write_venv_in
from hpcmod.packages.programs import find_conda_metadata, read_pip_metadata
from hpcmod.packages.sets import EDIT_RECORD, FILES, LOCK, PackageSet, WritableState, edited_by, find_edit
from hpcmod.packages.values.edited import Edited, describe_edited
from hpcmod.packages.values.plan import PackageChange, PackageTarget, PipOptions, make_constraints, make_state_plan
from hpcmod.packages.values.requirement import Requirements
from hpcmod.packages.values.state import State

CONSTRAINTS = "constraints.txt"
"""File at the top of the files that keeps pip from replacing the image's packages."""

_CACHE = "__pycache__"


@dataclass(frozen=True)
class Packing:
    """Result of packing an edited state."""

    before: State | None
    """The state that was active until then."""
    state: State
    """The new state, or the same one if nothing has changed."""
    edited: Edited


def begin_edit(target: PackageTarget, own_set: PackageSet, builder: Builder) -> WritableState:
    """Return the edited state of an image; if there is none, make one from the active state.

    Raises HpcmodError if there is no space, or the file of the active state is damaged.
    """
    with own_set.locked(builder.tell):
        begun = find_edit(own_set, target.place.tag)
        if begun:
            _check_own(own_set, target.place.tag, begun, FILES)
            return begun
        check_room_for(target, own_set)
        base = own_set.active(target.place.tag)
        with contextlib.ExitStack() as opened:
            descriptor, name = opened.enter_context(own_set.tree.parent(edit_directory(target.place.tag)))
            new = opened.enter_context(replacing_directory(Path(f"/proc/self/fd/{descriptor}", name)))
            files = new / FILES
            files.mkdir()
            _fill(target, own_set, base, files)
            made = WritableState(own_set.directory / name, base.number if base else None, builder.now, builder.user)
            (new / EDIT_RECORD).write_text(json.dumps(json_form(made)), encoding="utf-8")
    return made


def _fill(target: PackageTarget, own_set: PackageSet, base: State | None, files: Path) -> None:
    if base:
        with own_set.tree.open_file(state_file(base.number, base.tag)) as packed:
            unpack(packed, files, skipped=[_CACHE])  # compiled modules of a state are used even if the source changes
    else:
        write_venv_in(files, target)
    lines = make_constraints(target.packages, base.allowed if base else ())
    (files / CONSTRAINTS).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _check_own(own_set: PackageSet, tag: str, edit: WritableState, *below: str) -> None:
    """Check that an edited state consists of this user's own directories.

    In a shared set, a link in their place could make this user pack private files for others.
    """
    if own_set.is_edited_by_others(tag, *below):
        raise edited_by(edit)


def discard_edit(own_set: PackageSet, tag: str, tell: Callable[[str], None]) -> None:
    """Remove the edited state of an image; do nothing if there is none.

    Raises BusyError if another user edits it.
    """
    with own_set.locked(tell):
        edit = find_edit(own_set, tag)
        if edit:
            _check_own(own_set, tag, edit)
            _check_not_in_use(own_set, edit)
            _remove(own_set, tag)


def _remove(own_set: PackageSet, tag: str) -> None:
    """Remove an edited state, which is gone at once: a later run removes what a killed one leaves of it."""
    name = edit_directory(tag)
    gone = temporary_name(name)
    own_set.tree.change_mode(name, PRIVATE)
    own_set.tree.rename(name, gone)
    own_set.tree.remove_all(gone)


@contextlib.contextmanager
def hold_edit(own_set: PackageSet, edit: WritableState, tell: Callable[[str], None]) -> Iterator[None]:
    """Keep other processes from editing the same state while the block runs.

    Raises BusyError if one does already.
    """
    _check_not_in_use(own_set, edit)
    with hold(edit.directory / LOCK, limit=0, tell=tell, below=own_set.tree.root):
        yield


def _check_not_in_use(own_set: PackageSet, edit: WritableState) -> None:
    holder = read_holder(edit.directory / LOCK)
    if holder and not holder.is_dead():
        raise BusyError(f"your packages `{own_set.choice.shown}` are being edited by {holder}", "Wait until it ends.")


def pack_edit(target: PackageTarget, own_set: PackageSet, builder: Builder) -> Packing:
    """Pack the edited state into one file, make it active, and remove its directory.

    Raises HpcmodError if no state is being edited, or there is no space; the directory is then as it was.
    """
    with own_set.locked(builder.tell):
        edit = find_edit(own_set, target.place.tag)
        if edit is None:
            raise NotFoundError(f"{own_set.directory / edit_directory(target.place.tag)}: no such directory")
        _check_own(own_set, target.place.tag, edit, FILES)
        base = own_set.read(edit.base) if edit.base in own_set.numbers() else None
        venv = edit.files / target.venv_path
        of_conda = find_conda_metadata(venv)
        site = venv / f"lib/python{target.python.version}/site-packages"
        installed = [package for package in read_pip_metadata(site) if (package.name, package.version) not in of_conda]
        edited = describe_edited(installed, base, target, builder.now)
        change = PackageChange(
            added=Requirements(edited.requirements),
            dropped=edited.dropped,
            pip=PipOptions(build=True),  # nothing is built: the user has installed everything already
            allowed=edited.replaced,
            action="edit",
        )
        plan = make_state_plan(target, change, number=own_set.next_number(), parent=base)
        before = own_set.active(target.place.tag)
        files = own_set.tree.root / edit_directory(target.place.tag) / FILES
        check_room_for(target, own_set)
        with scratch_layer(builder.temporary) as layer:
            _copy(files, layer)
            state = own_set.settle(before, pack_layer(plan, edited.locked, layer, own_set, builder))
        _remove(own_set, target.place.tag)
    return Packing(before, state, edited)


def _copy(files: Path, layer: Path) -> None:
    """Copy what is to be packed: without compiled modules, whose times would not fit, and without the constraints."""
    for path in sorted(files.iterdir()):
        if path.is_dir() and not path.is_symlink():
            ignore = shutil.ignore_patterns(_CACHE)
            shutil.copytree(path, layer / path.name, symlinks=True, ignore=ignore, dirs_exist_ok=False)
        elif path.name != CONSTRAINTS:
            shutil.copy2(path, layer / path.name, follow_symlinks=False)
