"""Modes and groups below a catalogue: what its own directory allows, everything below it must allow too."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hpcmod.catalogue.sharing import loads_mode
from hpcmod.catalogue.store import Catalogue
from hpcmod.errors import HpcmodError
from hpcmod.fs.tree import Tree

_APART = (".locks", ".staging", "usage")
"""Directories with rules of their own, but for their own mode."""


@dataclass(frozen=True)
class WrongMode:
    """A file or directory that a reader or another publisher cannot use as they should, or that others may change."""

    path: Path
    found: str
    """Mode and group, as `ls -l` shows them."""
    wanted: str
    mode: int
    """The mode to set."""
    group: int
    """The number of the group to set."""


def find_wrong_modes(catalogue: Catalogue, below: Iterable[Path] = ()) -> Iterator[WrongMode]:
    """Yield what has a wrong mode or group, each directory before what is in it.

    Parameters
    ----------
    below
        Where to look; everywhere if empty.
    """
    root = intended(catalogue)
    restricted = set(_restricted(catalogue))
    yield from _compare_loads(catalogue, root)
    for path in (one for place in tuple(below) or (catalogue.directory,) for one in _walk(catalogue, place)):
        with suppress(FileNotFoundError):  # somebody is publishing
            is_root = path == catalogue.directory
            found = _compare(path, path.lstat(), root, closed=path.name in restricted, is_root=is_root)
            if found:
                yield found


def _compare_loads(catalogue: Catalogue, root: Intended) -> Iterator[WrongMode]:
    with suppress(OSError):
        status = catalogue.loads.lstat()
        mode = loads_mode(root.mode)
        if stat.S_IMODE(status.st_mode) != mode:
            expected = _show(stat.S_IFMT(status.st_mode) | mode, status.st_gid)
            yield WrongMode(catalogue.loads, _show(status.st_mode, status.st_gid), expected, mode, status.st_gid)


@dataclass(frozen=True)
class Intended:
    """Mode and group of a catalogue's own directory, as they were when it was made."""

    mode: int
    group: int


def intended(catalogue: Catalogue) -> Intended:
    """Return the mode and group that a catalogue's directory is to have: as recorded, else as it has them."""
    status = catalogue.directory.stat()
    group = status.st_gid
    with suppress(KeyError):
        group = grp.getgrnam(catalogue.group).gr_gid if catalogue.group else group
    return Intended(catalogue.mode or stat.S_IMODE(status.st_mode), group)


def _restricted(catalogue: Catalogue) -> Iterator[str]:
    """Yield the images that only a group may read; a record that cannot be read is for others to tell."""
    for name, version in catalogue.containers():
        with suppress(OSError, HpcmodError):
            record = catalogue.find(name, version)
            if record and record.readers:
                yield record.sif


def fix_modes(catalogue: Catalogue, wrong: Iterable[WrongMode]) -> Iterator[tuple[WrongMode, str]]:
    """Set modes and groups; yield those that this user may not set, each with the reason."""
    tree = Tree(catalogue.directory)
    for one in wrong:
        try:
            _set(tree, one)
        except OSError as err:
            yield one, err.strerror or str(err)


def set_modes(catalogue: Catalogue, places: Iterable[Path]) -> None:
    """Give what this user made in some places the modes and the group of the catalogue, as far as they exist."""
    mine = [path for path in places if path.exists()]
    for _ in fix_modes(catalogue, find_wrong_modes(catalogue, mine) if mine else ()):
        pass  # belongs to another publisher, for whom it is as it should be, or verify tells


def _set(tree: Tree, one: WrongMode) -> None:
    descriptor = _open(tree, one)
    try:
        if os.fstat(descriptor).st_gid != one.group:
            os.fchown(descriptor, -1, one.group)
        os.fchmod(descriptor, one.mode)
    finally:
        os.close(descriptor)


def _open(tree: Tree, one: WrongMode) -> int:
    """Open a file or directory, for which its owner may have to be allowed to read it first."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    if one.path == tree.root:
        return os.open(one.path, flags)
    tree.change_mode(one.path, one.mode | stat.S_IRUSR)
    return tree.open(one.path, flags)


def _walk(catalogue: Catalogue, place: Path) -> Iterator[Path]:
    yield place
    if not place.is_dir() or place.is_symlink():
        return
    apart = {catalogue.directory / name for name in _APART}
    for directory, directories, files in os.walk(place):
        if Path(directory) in apart:
            directories.clear()
            continue
        yield from (Path(directory, name) for name in sorted((*directories, *files)))


def _compare(path: Path, status: os.stat_result, root: Intended, *, closed: bool, is_root: bool) -> WrongMode | None:
    """Compare a path with the catalogue's directory; `closed` for an image that only a group may read."""
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return None
    mode, shared = stat.S_IMODE(status.st_mode), bool(root.mode & stat.S_ISGID)
    wanted = _wanted_bits(status.st_mode, root.mode)
    wrong_group = shared and not closed and status.st_gid != root.group
    new = (mode & ~0o2077) | (0o040 if closed else wanted)
    new = root.mode if is_root else new
    group = root.group if shared and not closed else status.st_gid
    if new == mode and not wrong_group:
        return None
    return WrongMode(
        path, _show(status.st_mode, status.st_gid), _show(stat.S_IFMT(status.st_mode) | new, group), new, group
    )


def _wanted_bits(mode: int, root: int) -> int:
    if stat.S_ISDIR(mode):
        return root & (0o077 | stat.S_ISGID)
    return root & (0o077 if mode & stat.S_IXUSR else 0o066)


def _show(mode: int, group: int) -> str:
    name = str(group)
    with suppress(KeyError):
        name = grp.getgrgid(group).gr_name
    return f"{stat.filemode(mode)} {name}"
