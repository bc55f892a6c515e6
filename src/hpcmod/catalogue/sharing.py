"""Who may read and change a catalogue: what its own directory allows, all below it allows too."""

from __future__ import annotations

import contextlib
import grp
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue.store import CATALOGUE, Catalogue, render_catalogue
from hpcmod.errors import BadInputError, LackingError
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.fs.tree import Tree, write_file

_ALL_MAY_READ = 0o755
_GROUP_MAY_WRITE = 0o020
_SETGID = 0o2000


def make_catalogue(catalogue: Catalogue, *, group: str = "") -> None:
    """Make the directories of a catalogue, its name last; where there is one already, what is missing of it.

    Parameters
    ----------
    group
        Who may change it besides the owner; empty: nobody. Everybody may read it, as far as the directories above
        allow.

    Raises
    ------
    BadInputError
        If the directory holds anything else.
    LackingError
        If there is no such group, or the user is not in it.
    """
    root = catalogue.directory
    places = (catalogue.records_directory, catalogue.images, catalogue.easyconfigs, catalogue.software)
    mine = (catalogue.kept, catalogue.advisories, catalogue.notices, catalogue.staging, catalogue.locks)
    every = (*places, catalogue.modules, *mine, *([catalogue.usage] if catalogue.counts_use else []))
    if root.is_dir() and not (root / CATALOGUE).is_file() and not _is_begun(root, every):
        raise BadInputError(f"{root}: this directory is not empty", "Name a directory that is empty or does not exist.")
    root.mkdir(parents=True, exist_ok=True)
    if group:
        _give_to_group(root, group)
    elif not (root / CATALOGUE).is_file():
        catalogue.tree.change_mode("", _ALL_MAY_READ)
    with shared(catalogue):
        for place in every:
            catalogue.tree.make_directory(place)
        if catalogue.counts_use:
            _make_loads(catalogue)
        write_file(root / CATALOGUE, render_catalogue(_as_it_is(catalogue)), mode=file_mode(root))


def loads_mode(root: int) -> int:
    """Return the mode of the directory in which loads are counted, by that of the catalogue.

    Every user may add a file, and only those who may publish may list them. It is sticky, so that nobody changes
    another's file, and has no set-group-ID bit, so that the group of a file is that of the user who loaded the module.
    """
    return 0o1733 | (0o040 if root & _GROUP_MAY_WRITE else 0)


def _make_loads(catalogue: Catalogue) -> None:
    catalogue.tree.make_directory(catalogue.loads)
    status = catalogue.loads.stat()
    if status.st_uid == os.geteuid():
        mode = loads_mode(catalogue.directory.stat().st_mode)
        catalogue.tree.change_mode(catalogue.loads, mode)


def _is_begun(root: Path, places: Iterable[Path]) -> bool:
    """Return whether a directory is empty, or holds no more than an interrupted `make_catalogue` leaves."""
    clear_leftovers(root, CATALOGUE)
    ours = {root / place.relative_to(root).parts[0] for place in places}
    return all(entry in ours and not _holds_files(entry) for entry in root.iterdir())


def _holds_files(directory: Path) -> bool:
    return any(not path.is_dir() or path.is_symlink() for path in (directory, *directory.rglob("*")))


def _as_it_is(catalogue: Catalogue) -> Catalogue:
    """Record mode and group of a catalogue's directory: a backup that is unpacked without them can be repaired."""
    status, group = catalogue.directory.stat(), ""
    if status.st_mode & _SETGID:
        with contextlib.suppress(KeyError):
            group = grp.getgrgid(status.st_gid).gr_name
    return replace(catalogue, mode=stat.S_IMODE(status.st_mode), group=group)


def _give_to_group(root: Path, group: str) -> None:
    """Let a group write, and let all that is made below belong to it, whoever makes it."""
    try:
        os.chown(root, -1, grp.getgrnam(group).gr_gid)
        Tree(root).change_mode("", _ALL_MAY_READ | _GROUP_MAY_WRITE | _SETGID)
    except KeyError as err:
        raise LackingError(f"there is no group {group!r}", "Name one that is there: getent group") from err
    except PermissionError as err:
        raise LackingError(f"{root}: cannot be given to the group {group}", "Have somebody in it make it.") from err


def file_mode(root: Path) -> int:
    """Mode of a file below a directory: for whom the directory is readable and writable."""
    return root.stat().st_mode & 0o666


def group_may_write(root: Path) -> bool:
    """Return whether a directory is there for a group to change."""
    return bool(root.stat().st_mode & _GROUP_MAY_WRITE)


def check_writable(catalogue: Catalogue) -> None:
    """Refuse a user who may not change a catalogue, before anything is tried.

    Raises
    ------
    LackingError
        With who may; or with where the catalogue is now.
    """
    if catalogue.moving_from:
        raise LackingError(
            f"the catalogue {catalogue.directory} is an unfinished copy of {catalogue.moving_from}",
            f"Finish it: hpcmod catalogue move --catalogue {catalogue.moving_from} {catalogue.directory}",
        )
    if catalogue.moved_to:
        raise LackingError(
            f"the catalogue {catalogue.directory} was moved to {catalogue.moved_to}",
            f"Change that one: --catalogue {catalogue.moved_to}. To use this one again: hpcmod catalogue init "
            f"{catalogue.directory}",
        )
    if not os.access(catalogue.locks, os.W_OK):
        root = catalogue.directory
        who = f"the group {root.group()}" if group_may_write(root) else root.owner()
        raise LackingError(f"you may not change the catalogue {root}", f"Ask {who}.")


@contextlib.contextmanager
def shared(catalogue: Catalogue) -> Iterator[None]:
    """Let what this process and its children make belong to whom the catalogue does, whatever their own umask.

    Notes
    -----
    An admin's umask of 077 would publish what nobody can read. The group comes from the set-group-ID bit of the
    directory, which new directories inherit.
    """
    before = os.umask(0o777 & ~catalogue.directory.stat().st_mode)
    try:
        yield
    finally:
        os.umask(before)
