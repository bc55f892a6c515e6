"""Who may read and change a catalogue: what its own directory allows, all below it allows too."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue.store import CATALOGUE, Catalogue, render_catalogue
from hpcmod.errors import BadInputError, LackingError
from hpcmod.fs.removal import find_closed, is_open_to
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.fs.tree import Tree, write_file

_ALL_MAY_READ = 0o755
_GROUP_MAY_WRITE = 0o020
_OTHERS_MAY_WRITE = 0o022
_SETGID = 0o2000
_READ, _ENTER = 0o044, 0o011
_PRIVATE = "it, or a directory above it, is closed to some who may read the catalogue: it may be somebody's own"


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


def removal_group(catalogue: Catalogue, path: Path) -> int | None:
    """Return the group that must be able to remove what is at a path, for this user to remove it.

    None if nobody but this user, root and the catalogue's owner could have put it there. Anybody else who may write a
    directory above it can rename another user's directory to the path, also one that they cannot read or empty.
    """
    root = catalogue.directory.stat()
    trusted = (0, os.geteuid(), root.st_uid)
    below = path.relative_to(catalogue.directory).parents
    for place in (catalogue.directory / one for one in below):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = place.lstat()
            if status.st_uid not in trusted or status.st_mode & _OTHERS_MAY_WRITE:
                return root.st_gid
    return None


def check_readable_by_readers(catalogue: Catalogue, path: Path) -> Callable[[os.stat_result], None]:
    """Return a check that all who may read a catalogue may read the file at a path, and enter what leads to it.

    For what is copied to where they read it. Where others may write the catalogue, they can rename a private file to
    the path, or the directory that it is in. The check takes a status and raises PermissionError.
    """
    root = catalogue.directory.stat()
    if removal_group(catalogue, path) is None:
        return lambda _: None

    def check(status: os.stat_result) -> None:
        needed = _ENTER if stat.S_ISDIR(status.st_mode) else _READ
        found, readers = status.st_mode & needed, root.st_mode & needed
        is_for_group = not readers & stat.S_IRWXO and status.st_gid == root.st_gid
        if found != needed and readers and not (is_for_group and found & stat.S_IRWXG):
            raise PermissionError(errno.EACCES, _PRIVATE)

    return check


def find_private(catalogue: Catalogue, path: Path) -> Path | None:
    """Return a directory at, in or above a path that may be somebody's own; None if all of it can be removed safely."""
    group = removal_group(catalogue, path)
    if group is None:
        return None
    if path.parent != catalogue.directory and not is_open_to(path.parent.lstat(), group):
        return path.parent
    return find_closed(path, group)


def check_replaceable(catalogue: Catalogue, path: Path, old: Path | None = None) -> None:
    """Check that a directory can be replaced without removing what may be somebody's own.

    Parameters
    ----------
    path
        Its place in the catalogue.
    old
        Where it is meanwhile.

    Raises
    ------
    LackingError
        If a directory in it can be changed only by its owner, although others could have put it there; if it is
        reached through a symbolic link, or is one.
    """
    check_no_links(catalogue, [path])
    group = removal_group(catalogue, path)
    private = None if group is None else find_closed(old or path, group)
    if private:
        below = private.relative_to(old or path)
        raise LackingError(
            f"{path / below}: only {_owner_of(private)} may change this directory, so it may not be the catalogue's",
            f"Move it to where it belongs, or remove it: rm -r {path}",
        )


def check_no_links(catalogue: Catalogue, paths: Iterable[Path]) -> None:
    """Check that paths of a catalogue do not lead out of it: other programs follow links where we do not.

    Raises
    ------
    LackingError
        With the first path that is a symbolic link or below one.
    """
    for path in paths:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            try:
                is_link = stat.S_ISLNK(catalogue.tree.status(path).st_mode)
            except OSError as err:
                is_link = err.errno == errno.ELOOP
                if not is_link:
                    raise
            if is_link:
                raise LackingError(
                    f"{path} is a symbolic link or below one, which could lead anywhere",
                    f"See who made it: ls -ld {path}. Mount or move the directory there instead of linking it.",
                )


def _owner_of(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return f"user {path.lstat().st_uid}"


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
    places = ("images", "software", "kept", "modules", "modules/all", "modules/.code", "easyconfigs", "records")
    check_no_links(catalogue, [catalogue.directory / name for name in (*places, "notices", ".locks", ".trash")])
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
