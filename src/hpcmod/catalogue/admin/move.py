"""Copy a catalogue to another directory and switch to it; the old one still loads, but accepts no more changes."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

from hpcmod.catalogue.change import Actor, changing, refresh_index, write_note
from hpcmod.catalogue.records.sharing import file_mode
from hpcmod.catalogue.records.store import CATALOGUE, Catalogue, open_catalogue, render_catalogue
from hpcmod.errors import BadInputError, HpcmodError, LackingError
from hpcmod.fs.ownership import others_may_replace
from hpcmod.fs.removal import find_closed
from hpcmod.fs.replacing import replacing_directory
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.fs.tree import Tree, write_file

_LEFT_OUT = (".locks", ".staging", ".trash")
_BLOCK = 16 << 20


def move_catalogue(catalogue: Catalogue, target: Path, *, actor: Actor) -> Catalogue:
    """Move a catalogue to a directory that does not exist yet; after an interruption, it can be run again.

    Images are hard links if both directories are on one file system, else copies. The old directory remains until
    the admin removes it.

    Raises
    ------
    BadInputError
        If the new directory exists, or is inside the catalogue.
    """
    check_target(catalogue, target)
    clear_leftovers(target.parent, target.name)
    moved = replace(catalogue, directory=target, moved_to="")
    if not (catalogue.moved_to and _is_unfinished(target, catalogue)):
        with changing(catalogue, actor):
            _copy_all(catalogue, moved, actor)
            _write_head(replace(catalogue, moved_to=str(target)))
    _write_head(moved)
    return moved


def _copy_all(catalogue: Catalogue, moved: Catalogue, actor: Actor) -> None:
    """Copy a catalogue, and render the files that name its directory; it accepts no changes until then."""
    with replacing_directory(moved.directory, lambda old: _check_removable(moved.directory, old)) as partial:
        _copy(catalogue.tree, partial, actor)
        _write_head(replace(moved, moving_from=str(catalogue.directory)), partial)
    for place in (moved.locks, moved.staging):
        place.mkdir(exist_ok=True)
        Tree(moved.directory).change_mode(place, stat.S_IMODE(catalogue.directory.stat().st_mode))
    with changing(moved, actor):
        refresh_index(moved, actor)
        write_note(moved, "move", f"from {catalogue.directory}", actor)


def _check_removable(target: Path, old: Path) -> None:
    """Check that an unfinished copy contains no directory that another user may have put there to have it removed.

    Raises
    ------
    If it may contain one.
        If it may.
    """
    closed = find_closed(old, old.stat().st_gid) if others_may_replace(target) else None
    if closed:
        raise LackingError(
            f"{target / closed.relative_to(old)}: only its owner may change it, so it may not be the catalogue's",
            f"Move it back to its owner's directory; then remove the unfinished copy: rm -r {target}",
        )


def _write_head(catalogue: Catalogue, directory: Path | None = None) -> None:
    place = directory or catalogue.directory
    write_file(place / CATALOGUE, render_catalogue(catalogue), mode=file_mode(place))


def check_target(catalogue: Catalogue, target: Path) -> None:
    """Raise an error if a catalogue cannot be moved to a directory.

    Raises
    ------
    BadInputError
        If it exists and is not an unfinished copy of the catalogue, or is inside the catalogue.
    """
    if os.path.lexists(target) and not _is_unfinished(target, catalogue):
        raise BadInputError(f"{target} already exists", "Choose a directory that does not exist.")
    if catalogue.directory.resolve() in target.resolve().parents:
        raise BadInputError(f"{target} is inside the catalogue", "Choose a directory outside it.")


def _is_unfinished(target: Path, catalogue: Catalogue) -> bool:
    """Return whether a directory is the leftover of an interrupted move of this catalogue."""
    try:
        source = open_catalogue(target).moving_from
    except HpcmodError:
        return False
    return bool(source) and Path(source).resolve() == catalogue.directory.resolve()


def _copy(source: Tree, target: Path, actor: Actor) -> None:
    """Copy a directory with modes and groups; hard links in it stay hard links.

    Every file is opened below the source without following links: a group member who replaces a file with a link
    during the copy must not get a copy of what only the admin may read.
    """
    seen: dict[tuple[int, int], Path] = {}
    left = [Path()]
    while left:
        below = left.pop()
        for name, status in source.entries(below):
            if below == Path() and name in _LEFT_OUT:
                continue
            path = below / name
            if stat.S_ISDIR(status.st_mode):
                (target / path).mkdir(mode=0o700)
                left.append(path)
                _copy_mode(status, target / path)
            elif stat.S_ISLNK(status.st_mode):
                (target / path).symlink_to(source.read_link(path))
            elif stat.S_ISREG(status.st_mode):
                known = seen.setdefault((status.st_dev, status.st_ino), target / path)
                if known != target / path:
                    (target / path).hardlink_to(known)
                else:
                    _copy_file(source, path, target / path, actor)
    _copy_mode(source.root.stat(), target)


def _copy_file(source: Tree, path: Path, target: Path, actor: Actor) -> None:
    with source.open_file(path) as file:
        status = os.fstat(file.fileno())
        if path.suffix == ".sif" and _is_linked(source, path, target, status):
            return
        if path.suffix == ".sif":
            actor.tell(f"copying {path.name}")
        with open(target, "xb", opener=partial(os.open, mode=0o600)) as copy:  # the original may be private
            shutil.copyfileobj(file, copy, _BLOCK)
            copy.flush()
            os.fsync(copy.fileno())
    _copy_mode(status, target)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _is_linked(source: Tree, path: Path, target: Path, status: os.stat_result) -> bool:
    """Hard-link a file to the copy; return whether that worked."""
    with source.parent(path) as (directory, name):
        try:
            os.link(name, target, src_dir_fd=directory, follow_symlinks=False)
        except OSError:
            return False
    if os.path.samestat(target.lstat(), status):
        return True
    target.unlink()  # another file got the name meanwhile
    return False


def _copy_mode(status: os.stat_result, target: Path) -> None:
    """Set the group and mode of the original on a copy; `verify` reports a group that this user is not a member of.

    If the copy has another group, that group gets the permissions of everyone.
    """
    mode = stat.S_IMODE(status.st_mode)
    if target.stat().st_gid != status.st_gid:
        try:
            os.chown(target, -1, status.st_gid)
        except PermissionError:
            mode = mode & ~0o2070 | (mode & 0o007) << 3
    Tree(target.parent).change_mode(target.name, mode)
