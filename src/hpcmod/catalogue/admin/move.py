"""Copy a catalogue to another directory, and generate its modules for that directory; the old one stays as it is."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from hpcmod.catalogue.change import Actor, changing, refresh_index, write_note
from hpcmod.catalogue.records.journal import read_journal
from hpcmod.catalogue.records.store import Catalogue, is_refused, open_catalogue
from hpcmod.catalogue.values.record import refusal
from hpcmod.core.errors import BadInputError, HpcmodError, LackingError
from hpcmod.core.fs.replacing import replacing_directory
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree

_BLOCK = 16 << 20


def move_catalogue(catalogue: Catalogue, target: Path, *, actor: Actor) -> Catalogue:
    """Copy a catalogue to a directory that does not exist yet; after an interruption, run it again.

    The copy gets its name when it is complete. Its modules load from the old directory until they are generated for
    the new one. Images are hard links if both directories are on one file system, else copies.

    Raises BadInputError if the new directory exists, or is inside the catalogue.
    """
    check_target(catalogue, target)
    clear_leftovers(target.parent, target.name)
    moved = replace(catalogue, directory=target)
    if not target.exists():
        with changing(catalogue, actor), replacing_directory(target) as copy:
            _copy(catalogue, copy, actor)
    with changing(moved, actor):
        refresh_index(moved, actor)
        write_note(moved, "move", f"from {catalogue.directory}", actor)
    return moved


def check_target(catalogue: Catalogue, target: Path) -> None:
    """Raise BadInputError if a directory is in the catalogue, or exists and is not the copy of an interrupted move.

    Raises LackingError if this user may not read an image, which is restricted to a group.
    """
    if catalogue.directory.resolve() in target.resolve().parents:
        raise BadInputError(f"{target} is inside the catalogue", "Choose a directory outside it.")
    if os.path.lexists(target) and not _is_copy(catalogue, target):
        raise BadInputError(f"{target} already exists", "Choose a directory that does not exist.")
    for record in (record for record in catalogue.readable_records() if is_refused(catalogue, record)):
        raise LackingError(refusal(record), "Who moves a catalogue must be able to read all its images.")


def _is_copy(catalogue: Catalogue, target: Path) -> bool:
    """Return whether a directory is a copy in which nothing was changed since: a complete move is in its journal."""
    with suppress(OSError, HpcmodError):
        is_alike = open_catalogue(target) == replace(catalogue, directory=target)
        return is_alike and read_journal(target) == read_journal(catalogue.directory)
    return False


def _copy(catalogue: Catalogue, target: Path, actor: Actor) -> None:
    """Copy a catalogue with modes and groups; hard links in it stay hard links.

    Every file is opened below the source without following links: a group member who replaces a file with a link
    during the copy must not get a copy of what only the admin may read.
    """
    source, seen = catalogue.tree, dict[tuple[int, int], Path]()
    emptied = {catalogue.locks, catalogue.staging, catalogue.directory / ".trash", catalogue.loads}
    left = [catalogue.directory]
    while left:
        below = left.pop()
        for name, status in source.entries(below) if below not in emptied else ():
            path = below / name
            copy = target / path.relative_to(catalogue.directory)
            if stat.S_ISDIR(status.st_mode):
                copy.mkdir(mode=0o700)
                left.append(path)
                _copy_mode(status, copy)
            elif stat.S_ISLNK(status.st_mode):
                copy.symlink_to(source.read_link(path))
            elif stat.S_ISREG(status.st_mode):
                first = seen.setdefault((status.st_dev, status.st_ino), copy)
                if first == copy:
                    _copy_file(source, path, copy, actor)
                else:
                    copy.hardlink_to(first)
    _copy_mode(source.root.stat(), target)


def _copy_file(source: Tree, path: Path, target: Path, actor: Actor) -> None:
    with source.open_file(path) as file:
        status = os.fstat(file.fileno())
        if path.suffix == ".sif":
            if _is_linked(source, path, target, status):
                return
            actor.tell(f"copying {path.name}")
        with open(target, "xb", opener=partial(os.open, mode=0o600)) as copy:  # the original may be private
            shutil.copyfileobj(file, copy, _BLOCK)
            copy.flush()
            os.fsync(copy.fileno())
    _copy_mode(status, target)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _is_linked(source: Tree, path: Path, target: Path, status: os.stat_result) -> bool:
    """Hard-link a file to the copy; return whether that worked."""
    with suppress(OSError), source.parent(path) as (directory, name):
        os.link(name, target, src_dir_fd=directory, follow_symlinks=False)
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
