"""Copy a catalogue to another directory and let it work there; the old one still loads, but takes no more changes."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue.change import Actor, changing, refresh_index, write_note
from hpcmod.catalogue.sharing import file_mode
from hpcmod.catalogue.store import CATALOGUE, Catalogue, open_catalogue, render_catalogue
from hpcmod.errors import BadInputError, HpcmodError
from hpcmod.fs.replacing import replacing_directory
from hpcmod.fs.tree import Tree, write_file
from hpcmod.image.copy import copy_image

_LEFT_OUT = (".locks", ".staging", ".trash")


def move_catalogue(catalogue: Catalogue, target: Path, *, actor: Actor) -> Catalogue:
    """Move a catalogue to a directory that does not exist yet; interrupted, it can be run again.

    Images are hard links where both directories are on one file system, else copies. The old directory is left for
    the admin to remove once nobody uses it.

    Raises
    ------
    BadInputError
        If the new directory exists, or is inside the catalogue.
    """
    check_target(catalogue, target)
    moved = replace(catalogue, directory=target, moved_to="")
    if not (catalogue.moved_to and _is_unfinished(target, catalogue)):
        with changing(catalogue, actor):
            _copy_all(catalogue, moved, actor)
            _write_head(replace(catalogue, moved_to=str(target)))
    _write_head(moved)
    return moved


def _copy_all(catalogue: Catalogue, moved: Catalogue, actor: Actor) -> None:
    """Copy a catalogue, and render what names its directory; until its head is written again it takes no changes."""
    with replacing_directory(moved.directory) as partial:
        _copy(catalogue.directory, partial, actor)
        _write_head(replace(moved, moving_from=str(catalogue.directory)), partial)
    for place in (moved.locks, moved.staging):
        place.mkdir(exist_ok=True)
        Tree(moved.directory).change_mode(place, stat.S_IMODE(catalogue.directory.stat().st_mode))
    with changing(moved, actor):
        refresh_index(moved, actor)
        write_note(moved, "move", f"from {catalogue.directory}", actor)


def _write_head(catalogue: Catalogue, directory: Path | None = None) -> None:
    place = directory or catalogue.directory
    write_file(place / CATALOGUE, render_catalogue(catalogue), mode=file_mode(place))


def check_target(catalogue: Catalogue, target: Path) -> None:
    """Refuse a directory to which a catalogue cannot be moved.

    Raises
    ------
    BadInputError
        If it exists and is not an unfinished copy of the catalogue, or is inside the catalogue.
    """
    if os.path.lexists(target) and not _is_unfinished(target, catalogue):
        raise BadInputError(f"{target} exists already", "Name a directory that does not exist.")
    if catalogue.directory.resolve() in target.resolve().parents:
        raise BadInputError(f"{target} is inside the catalogue", "Name a directory outside.")


def _is_unfinished(target: Path, catalogue: Catalogue) -> bool:
    """Return whether a directory is what an interrupted move of this catalogue left."""
    try:
        source = open_catalogue(target).moving_from
    except HpcmodError:
        return False
    return bool(source) and Path(source).resolve() == catalogue.directory.resolve()


def _copy(source: Path, target: Path, actor: Actor) -> None:
    """Copy a directory with modes and groups; names that are one file stay one file."""
    seen: dict[tuple[int, int], Path] = {}
    for directory, directories, files in os.walk(source):
        below = Path(directory).relative_to(source)
        directories[:] = [name for name in directories if not (below == Path() and name in _LEFT_OUT)]
        for name in (*directories, *files):
            _copy_one(Path(directory, name), target / below / name, seen, actor)
    _copy_mode(source, target)


def _copy_one(source: Path, target: Path, seen: dict[tuple[int, int], Path], actor: Actor) -> None:
    status = source.lstat()
    known = seen.setdefault((status.st_dev, status.st_ino), target)
    if stat.S_ISLNK(status.st_mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISDIR(status.st_mode):
        target.mkdir()
        _copy_mode(source, target)
    elif known != target:
        target.hardlink_to(known)
    elif stat.S_ISREG(status.st_mode):
        if source.suffix == ".sif":
            actor.tell(f"copying {source.name}")
        copy_image(source, target, method="share" if source.suffix == ".sif" else "copy")
        _copy_mode(source, target)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_mode(source: Path, target: Path) -> None:
    """Give a copy the group and the mode of the original; a group that this user is not in is for verify to tell."""
    status = source.stat()
    if target.stat().st_gid != status.st_gid:
        try:
            os.chown(target, -1, status.st_gid)
        except PermissionError:
            return
    Tree(target.parent).change_mode(target.name, stat.S_IMODE(status.st_mode))
