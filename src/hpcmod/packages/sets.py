"""A package set on disk: its states, the active and the edited one, and the lock that every change takes."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.core.errors import BadInputError, BusyError, HpcmodError, LackingError, NotFoundError
from hpcmod.core.fs.ownership import check_no_link_of_others, group_name, user_name
from hpcmod.core.fs.replacing import scratch
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree
from hpcmod.core.lock import hold
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.json_form import HIDDEN, parse_json
from hpcmod.modules.values.place import (
    DEFAULT_SET,
    PREVIOUS,
    STATES,
    SetChoice,
    active_link,
    base_directory,
    edit_directory,
    idle_link,
    parse_active_link,
    parse_state_file,
    previous_link,
    record_file,
    set_directory,
    state_file,
)
from hpcmod.packages.values.state import State, parse_state, render_state

LOCK = ".lock"
TEMPORARY = "packages"
"""Name of a set that is not kept."""
_SCRATCH = "hpcmod-set"
FILES = "user-software"
"""Directory with the files of an edited state."""
EDIT_RECORD = "edit.json"
_CONTENT = ("tag", "sha256", "requirements", "allowed", "conda")
"""Fields that are equal if two states are the same."""
_LIMIT = 8 << 20  # bytes of a record
_RECORD_MODE = 0o644
_ALL_OTHERS = 0o1002
"""Permissions of directories such as /tmp that a set below them does not get."""


@dataclass(frozen=True)
class PackageSet:
    """One set of packages of a container."""

    name: str
    """Name of the container, e.g. PyTorch."""
    choice: SetChoice
    directory: Path
    """Path that the module uses; it may be a link to the directory with the data."""
    typed: str = field(default="", compare=False)
    """The container as the user named it; empty: by its name."""

    @property
    def asked(self) -> str:
        """Return the words that choose the container and this set, for a command line."""
        words = sh_word(self.typed or self.name)
        if self.choice.directory:
            return f"{words} --shared {sh_word(self.choice.directory)}"
        return words if self.choice.name == DEFAULT_SET else f"{words} --set {self.choice.name}"

    @property
    def tree(self) -> Tree:
        """Return the directory with the data, below which no link is followed.

        Raises BadInputError if a member of the project has replaced a directory in the path of a shared set by a link.
        """
        if self.choice.directory:
            check_no_link_of_others(self.directory.parent, "--shared")
            if self.directory.is_symlink():
                raise BadInputError(
                    f"{self.directory} is a link to {self.directory.readlink()}, expected a directory",
                    "If you trust it, use the directory it points to: --shared DIRECTORY",
                )
        return Tree(self.directory.resolve())

    @property
    def exists(self) -> bool:
        """Return whether the set has a state, also an edited or damaged one: a first change that failed leaves none."""
        names = {*self.tree.names(), *self.tree.names(STATES)} - {STATES}
        return not all(name.startswith(".") for name in names)

    def numbers(self) -> dict[int, str]:
        """Return the tag of each state, by number, whether or not it is complete."""
        parsed = (parse_state_file(name) for name in self.tree.names(STATES))
        return dict(sorted(pair for pair in parsed if pair))

    def next_number(self) -> int:
        """Return the number of the next state."""
        return max(self.numbers(), default=0) + 1

    def read(self, number: int) -> State:
        """Return a state by its number.

        Raises NotFoundError if there is none; BadInputError if its record is damaged.
        """
        tag = self.numbers().get(number)
        if tag is None:
            known = ", ".join(map(str, self.numbers())) or "none"
            raise NotFoundError(
                f"state {number} not found in {self.directory}; it has {known}",
                f"See: hpcmod packages {self.asked} --history",
            )
        path = record_file(number, tag)
        try:
            state = parse_state(self.tree.read(path, _LIMIT), f"{self.directory}/{path}")
        except FileNotFoundError as err:
            raise NotFoundError(f"state {number} in {self.directory} is incomplete", "Use another state.") from err
        if (state.number, state.tag) != (number, tag):
            raise BadInputError(f"{self.directory}/{path}: is the record of state {state.number} ({state.tag})")
        return state

    def states(self) -> list[State]:
        """Return all complete states, oldest first; damaged ones are left out."""
        states = []
        for number in self.numbers():
            with contextlib.suppress(HpcmodError, OSError):
                states.append(self.read(number))
        return states

    def active_number(self, tag: str) -> int | None:
        """Return the number of the active state of a tag; None if there is none."""
        number, _ = self._linked(active_link(tag), idle_link(tag))
        return number if number in self.numbers() else None

    def is_seen(self, tag: str) -> bool:
        """Return whether modules see the active state of a tag: not one that has nothing, to hide no others."""
        return active_link(tag) in self.tree.names()

    def _linked(self, *links: str) -> tuple[int | None, str]:
        """Return the number and tag of the state that the first existing link points to."""
        for link in links:
            with contextlib.suppress(OSError):
                target = self.tree.read_link(link)
                parsed = parse_state_file(target.removeprefix(f"{STATES}/"))
                return parsed if parsed and target == state_file(*parsed) else (None, "")
        return None, ""

    def chosen_number(self, tag: str) -> int | None:
        """Return the number of the state of a tag that modules use for this choice; None if there is none."""
        number = self.choice.state
        if number is None:
            return self.active_number(tag)
        return number if self.numbers().get(number) == tag else None

    def active(self, tag: str) -> State | None:
        """Return the active state of a tag; None if there is none."""
        number = self.active_number(tag)
        return None if number is None else self.read(number)

    def previous_number(self, state: State) -> int | None:
        """Return the state that was active before one: that of the note, else the parent; None if none was."""
        number, tag = self._linked(previous_link(state.number, state.tag))
        return number if tag == state.tag else state.parent

    def active_numbers(self) -> frozenset[int]:
        """Return the numbers of the active states of all tags."""
        tags = (parse_active_link(name) for name in self.tree.names())
        numbers = (self.active_number(tag) for tag in tags if tag)
        return frozenset(number for number in numbers if number is not None)

    def check_not_edited(self, tag: str) -> None:
        """Check that no state of a tag is being edited, whose changes a new state would not have.

        Raises BusyError if one is.
        """
        edit = find_edit(self, tag)
        if edit:
            if self.is_edited_by_others(tag):
                raise edited_by(edit)
            raise BusyError(
                f"your packages `{self.choice.shown}` for {self.name} are being edited in "
                f"{self.directory / edit_directory(tag)}",
                f"Finish: hpcmod edit {self.asked}; or discard the changes: hpcmod edit {self.asked} --discard",
            )

    def is_edited_by_others(self, tag: str, *below: str) -> bool:
        """Return whether the edited state of a tag, or a directory below it, is not this user's own directory."""
        states = map(self.tree.status, (edit_directory(tag), *(f"{edit_directory(tag)}/{inner}" for inner in below)))
        return not all(stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() for state in states)

    def switch(self, state: State) -> None:
        """Make a state the active one of its tag; the caller must hold the lock."""
        links = active_link(state.tag), idle_link(state.tag)
        link, other = reversed(links) if state.has_nothing else links
        self.tree.symlink(link, state_file(state.number, state.tag))
        self.tree.remove(other)

    def activate(self, state: State, before: int | None) -> None:
        """Make a state the active one after another, to which `undo` returns; the caller must hold the lock."""
        if before not in (None, state.number, self.previous_number(state)):
            self.tree.symlink(previous_link(state.number, state.tag), state_file(before, state.tag))
        self.switch(state)

    def settle(self, before: State | None, state: State) -> State:
        """Record a new state and make it the active one, unless there is the same one; return the active one.

        A run that was interrupted after its change is repeated without effect. One that was interrupted between record
        and link has left a complete state, which gets the new file and becomes the active one. A state that cannot
        become the active one is removed. The caller must hold the lock. A state's file without a record is a leftover.
        """
        if before and _are_equal(before, state):
            self.tree.remove(state_file(state.number, state.tag))
            return before
        recorded = next((earlier for earlier in self.states() if _is_repeated(earlier, state)), None)
        if recorded:
            self.tree.rename(state_file(state.number, state.tag), state_file(recorded.number, recorded.tag))
            self.activate(recorded, before.number if before else None)
            return recorded
        try:
            self.add(state)
            self.activate(state, before.number if before else None)
        except BaseException:
            with contextlib.suppress(OSError, HpcmodError):
                if self.active_number(state.tag) != state.number:
                    self.remove(state.number, state.tag)
            raise
        return state

    def add(self, state: State) -> None:
        """Write the record of a state whose file is in place; the caller must hold the lock."""
        self.tree.write(record_file(state.number, state.tag), render_state(state), mode=_RECORD_MODE)

    def size(self, number: int, tag: str) -> int:
        """Return the bytes of a state's file."""
        return self.tree.status(state_file(number, tag)).st_size

    def remove(self, number: int, tag: str) -> int:
        """Remove a state and return the bytes that this frees; the caller must hold the lock."""
        size = self.size(number, tag)
        notes = [name for name in self.tree.names() if name.startswith(PREVIOUS) and self._linked(name)[0] == number]
        for path in (*notes, previous_link(number, tag), record_file(number, tag), state_file(number, tag)):
            self.tree.remove(path)
        return size

    def check_writable(self) -> None:
        """Check that the user may change a shared set.

        Raises LackingError, with whom to ask, if not.
        """
        root = self.tree.root
        for path in (root, root / STATES) if self.choice.directory else ():
            if path.is_dir() and not os.access(path, os.W_OK | os.X_OK):
                status = path.stat()
                owner = user_name(status.st_uid)
                raise LackingError(
                    f"you may not change the packages in {path}, which belong to {owner} and group "
                    f"{group_name(status.st_gid)} ({stat.filemode(status.st_mode)})",
                    f"Ask {owner}, or use a set of your own: --set NAME",
                )

    def make(self) -> None:
        """Create the directory of the states, with the permissions of the set's own directory."""
        mode = stat.S_IMODE(self.tree.root.stat().st_mode)
        self.tree.make_directory(STATES, mode=mode)

    @contextlib.contextmanager
    def locked(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Hold the lock of the set while the block runs, and remove what a killed process left.

        Raises BusyError if its holder cannot be checked and shows no activity; LackingError as `check_writable`.
        """
        self.check_writable()
        root = self.tree.root
        with hold(root / LOCK, tell=tell, below=root):
            clear_leftovers(root, alone=True)
            self.make()
            self._remove_unfinished()
            try:
                yield
            finally:
                if not self.exists:
                    self.tree.remove_empty(STATES)

    def _remove_unfinished(self) -> None:
        """Remove files of states without a record, unless they are active."""
        with contextlib.suppress(OSError):
            descriptor = self.tree.open(STATES, os.O_RDONLY | os.O_DIRECTORY)
            try:
                clear_leftovers(Path(f"/proc/self/fd/{descriptor}"), alone=True)
            finally:
                os.close(descriptor)
        names, active = set(self.tree.names(STATES)), self.active_numbers()
        for number, tag in self.numbers().items():
            if number not in active and record_file(number, tag).removeprefix(f"{STATES}/") not in names:
                self.tree.remove(state_file(number, tag))


def _are_equal(before: State, state: State) -> bool:
    return bool(before.sha256) and all(getattr(before, name) == getattr(state, name) for name in _CONTENT)


def _is_repeated(earlier: State, state: State) -> bool:
    """Return whether a state is what an interrupted run of the same command recorded."""
    old, new = earlier.origin, state.origin
    is_same = (earlier.parent, old.image, old.module, old.user) == (state.parent, new.image, new.module, new.user)
    return is_same and _are_equal(earlier, state)


def open_set(name: str, choice: SetChoice, environ: Mapping[str, str]) -> PackageSet:
    """Return a set of a container, whether or not it exists yet."""
    return PackageSet(name, choice, Path(set_directory(name, choice, environ)))


def find_names(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the containers for which the user has sets, sorted."""
    with contextlib.suppress(OSError):
        return sorted(path.name for path in Path(base_directory(environ)).iterdir() if find_sets(path.name, environ))
    return []


def find_sets(name: str, environ: Mapping[str, str]) -> list[PackageSet]:
    """Return the user's own sets of a container, sorted by name."""
    parent = Path(set_directory(name, SetChoice("x"), environ)).parent
    with contextlib.suppress(OSError):
        names = sorted(path.name for path in parent.iterdir() if path.is_dir() and not path.name.startswith("."))
        return [open_set(name, SetChoice(set_name), environ) for set_name in names]
    return []


def set_in(directory: Path) -> PackageSet:
    """Return a set in a directory of this process alone."""
    return PackageSet(TEMPORARY, SetChoice("", str(directory)), directory / TEMPORARY)


@contextlib.contextmanager
def temporary_set(temporary: Path) -> Iterator[PackageSet]:
    """Yield an empty set of packages, removed after the block; one that a killed process left is removed first."""
    clear_leftovers(temporary, _SCRATCH)
    with scratch(temporary / _SCRATCH) as private:
        made = set_in(Path(os.path.realpath(private.directory)))
        make_set(made, None)
        yield made


def make_set(found: PackageSet, data: Path | None, tell: Callable[[str], None] = lambda _: None) -> None:
    """Create the directory of a set, or a link to its data elsewhere.

    `data`: Directory for the data; None for the set's own directory.
    `tell`: Called with a line for the user while the first change of the set by another process is waited for.

    Raises BadInputError if the set exists and its data is elsewhere.
    """
    found.check_writable()
    if found.choice.directory:
        root = found.tree.root
        above = next(path for path in root.parents if path.is_dir())  # its group may write a new set, too
        mode = stat.S_IMODE(above.stat().st_mode) & ~_ALL_OTHERS
        try:
            Tree(above).make_directory(root.relative_to(above), mode=mode)
        except PermissionError as err:
            cure = "Name a directory that exists, and that everyone who changes the set may write: --shared DIRECTORY"
            raise LackingError(f"{root} cannot be created: you may not write {above}", cure) from err
    elif data is None or data == found.directory:
        found.directory.mkdir(parents=True, exist_ok=True)
    else:
        data.mkdir(parents=True, exist_ok=True)
        if found.directory.is_dir() and not found.states():
            with found.locked(tell):
                pass  # nobody is making a first change, and what a failed one left is removed
        if found.exists and not found.directory.samefile(data):
            raise BadInputError(
                f"you already have a set {found.choice.shown!r} for {found.name}, in {found.directory.resolve()}",
                "Choose another name: --set NAME",
            )
        if not found.exists:
            Tree(found.directory.parent).remove_empty(found.directory.name)
            found.directory.parent.mkdir(parents=True, exist_ok=True)
            Tree(found.directory.parent).symlink(found.directory.name, str(data.resolve()))
    found.make()


@dataclass(frozen=True)
class WritableState:
    """A state that is being edited."""

    directory: Path = field(metadata=HIDDEN)
    base: int | None = None
    """Number of the state that it started from; None for no packages."""
    time: str = "an unknown time"
    user: str = "an unknown user"

    @property
    def files(self) -> Path:
        """Return the directory that a container sees at /user-software."""
        return self.directory / FILES


def edited_by(edit: WritableState) -> BusyError:
    """Return the error that another user is editing a state."""
    return BusyError(
        f"{edit.directory}: another user is editing these packages since {edit.time}",
        f"Ask {edit.user} to finish, or use a set of your own: --set NAME",
    )


def find_edit(found: PackageSet, tag: str) -> WritableState | None:
    """Return the state that is being edited for an image; None if there is none."""
    name = edit_directory(tag)
    if name not in found.tree.names():
        return None
    directory = found.directory / name
    try:
        text = found.tree.read(f"{name}/{EDIT_RECORD}", _LIMIT)
        return parse_json(WritableState, text, EDIT_RECORD, limit=_LIMIT, directory=directory)
    except (OSError, BadInputError):
        return WritableState(directory)
