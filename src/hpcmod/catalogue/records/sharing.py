"""Who may read and change a catalogue: the permissions of its directory apply to everything below it."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue.records.store import CATALOGUE, Catalogue, render_catalogue
from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.ownership import user_name
from hpcmod.core.fs.removal import is_open_to, names_in
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree, write_file

_ALL_MAY_READ = 0o755
_GROUP_MAY_WRITE = 0o020
_OTHERS_MAY_WRITE = 0o022
_SETGID = 0o2000
_SHARED = _ALL_MAY_READ | _GROUP_MAY_WRITE | _SETGID
_READ, _ENTER = 0o044, 0o011
_PRIVATE = "not everyone who may read the catalogue may read it or a directory above it, so it may be another user's"


def make_catalogue(catalogue: Catalogue, *, group: str = "") -> None:
    """Create the directories of a catalogue, the file that identifies it last; if it exists, add what is missing.

    `group`: Group that may change it, like its owner; empty for the recorded one, if any. Everyone may read it, if the
        parent directories allow that.

    Raises BadInputError if the directory contains anything else; LackingError if the group does not exist, or the user
    is not a member.
    """
    root = catalogue.directory
    places = (catalogue.records_directory, catalogue.images, catalogue.easyconfigs, catalogue.software)
    mine = (catalogue.kept, catalogue.advisories, catalogue.notices, catalogue.staging, catalogue.locks)
    every = (*places, catalogue.modules, *mine, *([catalogue.usage] if catalogue.counts_use else []))
    is_one = (root / CATALOGUE).is_file() or any(catalogue.records_directory.glob("*/*.json"))  # it lost that file
    if root.is_dir() and not is_one and not _is_begun(root, every):
        raise BadInputError(
            f"{root}: this directory is not empty", "Choose a directory that is empty or does not exist."
        )
    root.mkdir(parents=True, exist_ok=True)
    if group:
        _give_to_group(root, group, _SHARED)
    elif catalogue.group and not root.stat().st_mode & _SETGID:  # a backup restored without it
        _give_to_group(root, catalogue.group, (catalogue.mode or _SHARED) & _SHARED)
    elif not is_one:
        catalogue.tree.change_mode("", _ALL_MAY_READ)
    with shared(catalogue):
        for directory in every:
            catalogue.tree.make_directory(directory)
        if catalogue.counts_use:
            _make_loads(catalogue)
        write_file(root / CATALOGUE, render_catalogue(_as_it_is(catalogue)), mode=file_mode(root))


def loads_mode(root: int) -> int:
    """Return the mode of the directory in which loads are counted, from the mode of the catalogue.

    Every user may add a file, and only publishers may list them. It is sticky, so that users cannot change each other's
    files, and has no set-group-ID bit, so that a file has the group of the user who loaded the module.
    """
    return 0o1733 | (0o040 if root & _GROUP_MAY_WRITE else 0)


def _make_loads(catalogue: Catalogue) -> None:
    catalogue.tree.make_directory(catalogue.loads)
    if catalogue.loads.stat().st_uid == os.geteuid():
        catalogue.tree.change_mode(catalogue.loads, loads_mode(catalogue.directory.stat().st_mode))


def _is_begun(root: Path, places: Iterable[Path]) -> bool:
    """Return whether a directory is empty, or contains only what an interrupted `make_catalogue` leaves."""
    clear_leftovers(root, CATALOGUE)
    ours = {root / path.relative_to(root).parts[0] for path in places}
    return all(entry in ours and not _holds_files(entry) for entry in root.iterdir())


def _holds_files(directory: Path) -> bool:
    return any(not path.is_dir() or path.is_symlink() for path in (directory, *directory.rglob("*")))


def _as_it_is(catalogue: Catalogue) -> Catalogue:
    """Return the catalogue with its directory's mode and group, to repair a backup restored without them."""
    status, group = catalogue.directory.stat(), ""
    if status.st_mode & _SETGID:
        with contextlib.suppress(KeyError):
            group = grp.getgrgid(status.st_gid).gr_name
    return replace(catalogue, mode=stat.S_IMODE(status.st_mode), group=group)


def _give_to_group(root: Path, group: str, mode: int) -> None:
    """Allow a group to write, and make it own everything created below, by any user."""
    try:
        number = grp.getgrnam(group).gr_gid
        os.chown(root, -1, number)
        Tree(root).change_mode("", mode)
    except KeyError as err:
        raise LackingError(f"group {group!r} not found", "Choose an existing one with --group: getent group") from err
    except PermissionError as err:
        status, given = root.stat(), _SETGID | _GROUP_MAY_WRITE
        if status.st_gid == number and status.st_mode & given == given and may_give_to(number):  # another member did it
            return
        who = "a member of that group" if status.st_uid == os.geteuid() else user_name(status.st_uid)
        raise LackingError(
            f"{root}: cannot be given to the group {group}",
            f"Ask {who} to create the catalogue, or choose another group with --group.",
        ) from err


def may_give_to(group: int) -> bool:
    """Return whether this user may give their files to a group."""
    return os.geteuid() == 0 or group in (os.getegid(), *os.getgroups())


def file_mode(root: Path) -> int:
    """Return the mode of a file below a directory, from the directory's read and write permissions."""
    return root.stat().st_mode & 0o666


def removal_group(catalogue: Catalogue, path: Path) -> int | None:
    """Return the group that must be able to remove what is at a path, for this user to remove it.

    None if only this user, root or the catalogue's owner could have put it there. Any other user who may write a
    directory above it can rename another user's directory to the path, even one that they cannot read or empty.
    """
    root = catalogue.directory.stat()
    trusted = (0, os.geteuid(), root.st_uid)
    for parent in path.relative_to(catalogue.directory).parents:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = (catalogue.directory / parent).lstat()
            if status.st_uid not in trusted or status.st_mode & _OTHERS_MAY_WRITE:
                return root.st_gid
    return None


def check_readable_by_readers(catalogue: Catalogue, path: Path) -> Callable[[os.stat_result], None]:
    """Return a check that all readers of a catalogue may read the file at a path, and enter its directories.

    Use it for files that are copied to where they can read them. Users who may write the catalogue can rename another
    user's private file or its directory to the path. The check takes a status and raises PermissionError.
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
    """Return a directory at, in or above a path that may be another user's; None if all of it can be removed safely."""
    group = removal_group(catalogue, path)
    if group is None:
        return None
    if path.parent != catalogue.directory and not is_open_to(path.parent.lstat(), group):
        return path.parent
    return find_closed(path, group)


def check_replaceable(catalogue: Catalogue, path: Path, old: Path | None = None) -> None:
    """Check that a directory can be replaced without removing what may be another user's.

    `path`: Its path in the catalogue.
    `old`: Its temporary path, if it was renamed.

    Raises LackingError if a directory in it can be changed only by its owner, although others could have put it there;
    or if it is a symbolic link or below one.
    """
    check_no_links(catalogue, [path])
    group = removal_group(catalogue, path)
    private = None if group is None else find_closed(old or path, group)
    if private:
        raise _closed(path / private.relative_to(old or path), private.lstat())


def check_open_directory(catalogue: Catalogue, path: Path, directory: int) -> None:
    """Check that an open directory of a catalogue can be written without changing what may be another user's.

    `path`: Its path in the catalogue.
    `directory`: Its descriptor.

    Raises LackingError if only its owner may change it, although others could have put it there.
    """
    group, status = removal_group(catalogue, path), os.fstat(directory)
    if group is None or is_open_to(status, group) or not names_in(directory):
        return
    raise _closed(path, status)


def _closed(path: Path, status: os.stat_result) -> LackingError:
    return LackingError(
        f"{path}: only {user_name(status.st_uid)} may change this directory, so it may not be the catalogue's",
        f"Move it back to its owner's directory, or remove it: rm -r {path}",
    )


def check_no_links(catalogue: Catalogue, paths: Iterable[Path]) -> None:
    """Raise LackingError for the first path of a catalogue that is a symbolic link or below one.

    Other programs follow links where we do not, and a link could lead out of the catalogue.
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
                    f"{path} is a symbolic link or below one, which could point anywhere",
                    f"See who created it: ls -ld {path}. Mount or move the directory there instead of linking it.",
                )


def check_writable(catalogue: Catalogue) -> None:
    """Raise LackingError if the user may not change a catalogue, with the group or owner that may."""
    places = ("images", "software", "kept", "modules", "modules/all", "easyconfigs", "records")
    check_no_links(catalogue, [catalogue.directory / name for name in (*places, "notices", ".locks", ".trash")])
    if not os.access(catalogue.locks, os.W_OK):
        root = catalogue.directory
        who = f"the group {root.group()}" if root.stat().st_mode & _GROUP_MAY_WRITE else root.owner()
        raise LackingError(f"you may not change the catalogue {root}", f"Ask {who}.")


@contextlib.contextmanager
def shared(catalogue: Catalogue) -> Iterator[None]:
    """Give what this process and its children create to the catalogue's group, whatever the user's umask.

    Notes
    -----
    An admin's umask of 077 would publish files that no one else can read. The group comes from the directory's
    set-group-ID bit, which new directories inherit.
    """
    before = os.umask(0o777 & ~catalogue.directory.stat().st_mode)
    try:
        yield
    finally:
        os.umask(before)


def find_closed(path: Path | str, group: int) -> Path | None:
    """Return the first directory at or below a path that `remove_path` does not empty for this group; None if none.

    Raises OSError if a directory cannot be read.
    """
    path = Path(path)
    if path.is_symlink() or not path.is_dir():
        return None
    if not is_open_to(path.lstat(), group):
        return path
    with os.scandir(path) as found:
        below = sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))
    return next(filter(None, (find_closed(path / name, group) for name in below)), None)
