"""Modes and groups below a catalogue: what its own directory allows, everything below it must allow too."""

from __future__ import annotations

import errno
import grp
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.catalogue.records.sharing import loads_mode
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.storage.evidence import Anchor, Evidence, inode_of, is_closed
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.core.fs.beneath import closing, open_beneath
from hpcmod.core.fs.tree import Tree, change_mode

UNPROVEN = "others may have put it there, or changed its record"
"""Why a mode is not set: that would give others access to what may be another user's, or for a group alone."""

_ACCESS = 0o777  # the bits that give access, without the set-group-ID bit

FOR_GROUP = 0o640
"""Mode of an image that only a group may read."""

_SKEW = 60.0  # seconds
_APART = (".locks", ".staging", "usage")
"""Directories with their own rules for everything but their own mode."""


@dataclass(frozen=True)
class WrongMode:
    """A file or directory that readers or other publishers cannot use as intended, or that others may change."""

    path: Path
    found: str
    """Mode and group, as `ls -l` shows them."""
    wanted: str
    mode: int
    """The mode to set."""
    group: int
    """The group ID to set."""
    anchor: Anchor | None
    """Why it may be set; None if it is not proven to be the catalogue's, so that no one is given access to it."""
    record: CatalogueRecord | None = None
    """The container of an image that only a group may read now; if there is no anchor, publishing it again sets it."""
    spare: bool = False
    """Whether it is an image of no container that others may not read, as after an undo: it is opened to no one."""


def find_wrong_modes(
    catalogue: Catalogue,
    below: Iterable[Path] = (),
    *,
    since: float | None = None,
    closed: Iterable[str] = (),
    opens: bool = False,
) -> Iterator[WrongMode]:
    """Yield paths with a wrong mode or group, each directory before its content.

    `below`: Paths to check; everything if empty.
    `since`: Seconds since 1970: what this user wrote later counts as the catalogue's.
    `closed`: File names of images that only a group may read, in addition to those whose records say so.
    `opens`: Whether this user wants all to read an image that only a group may read. A record alone does not say that:
        other publishers may change it.
    """
    evidence = Evidence(catalogue)
    root = _intended(catalogue)
    usual = {root[1], *(path.lstat().st_gid for path in [catalogue.directory / "catalogue.json"] if path.exists())}
    images = {record.sif: record for record in catalogue.readable_records()}
    restricted = {name: record.readers for name, record in images.items() if record.readers} | dict.fromkeys(closed, "")
    yield from _compare_loads(catalogue, root[0])
    for path in (path for place in tuple(below) or (catalogue.directory,) for path in _walk(catalogue, place)):
        with suppress(FileNotFoundError, PermissionError):  # removed by a process that is publishing; in a closed one
            is_root = path == catalogue.directory
            status = path.lstat()
            found = _compare(path, status, root, readers=restricted.get(path.name), is_root=is_root)
            mode, is_left = stat.S_IMODE(status.st_mode), path.suffix == ".sif" and path.name not in images
            if found and not (since is None and is_left and mode == FOR_GROUP):  # `gc` removes it
                is_new = since is not None and status.st_uid == os.geteuid() and status.st_mtime >= since
                is_safe = is_new or _only_closes(status, found)
                is_for_group = mode == FOR_GROUP and status.st_gid not in usual and not opens
                spare = since is None and is_left and not mode & 0o044
                anchor = None if is_for_group or spare else evidence.find(path, status)
                record = images.get(path.name) if is_for_group else None
                anchor = Anchor(path, inode_of(status)) if is_safe else anchor
                yield replace(found, anchor=anchor, record=record, spare=spare and not anchor)


def _only_closes(status: os.stat_result, wrong: WrongMode) -> bool:
    return status.st_gid == wrong.group and not wrong.mode & ~stat.S_IMODE(status.st_mode) & _ACCESS


def _compare_loads(catalogue: Catalogue, root_mode: int) -> Iterator[WrongMode]:
    with suppress(OSError):
        status = catalogue.loads.lstat()
        mode = loads_mode(root_mode)
        if stat.S_IMODE(status.st_mode) != mode:
            expected = _show(stat.S_IFMT(status.st_mode) | mode, status.st_gid)
            found = _show(status.st_mode, status.st_gid)
            yield WrongMode(
                catalogue.loads, found, expected, mode, status.st_gid, Anchor(catalogue.loads, inode_of(status))
            )


def _intended(catalogue: Catalogue) -> tuple[int, int]:
    """Return mode and group ID of a catalogue's directory as they were when it was created, else its current ones."""
    status = catalogue.directory.stat()
    group = status.st_gid
    with suppress(KeyError):
        group = grp.getgrnam(catalogue.group).gr_gid if catalogue.group else group
    return stat.S_IMODE(catalogue.mode or status.st_mode), group


def fix_modes(catalogue: Catalogue, wrong: Iterable[WrongMode]) -> Iterator[tuple[WrongMode, str]]:
    """Set modes and groups; yield those that are not set, each with the reason.

    What is not proven to be the catalogue's is left unchanged: others may have renamed it into the catalogue.
    """
    tree = Tree(catalogue.directory)
    for wrong_mode in sorted(
        wrong, key=lambda mode: len(mode.path.parts), reverse=True
    ):  # the content of a closed directory first
        try:
            _set(tree, wrong_mode)
        except OSError as err:
            yield wrong_mode, err.strerror or str(err)


def set_modes(catalogue: Catalogue, places: Iterable[Path], *, since: float, closed: Iterable[str] = ()) -> None:
    """Set the modes and the group of the catalogue on what this user created in some places, if they exist.

    `since`: When this user began, in seconds since 1970. The clocks of file servers may be a minute behind.
    `closed`: File names of images that only a group may read.
    """
    mine = [path for path in places if path.exists()]
    wrong = find_wrong_modes(catalogue, mine, since=since - _SKEW, closed=closed) if mine else ()
    for _ in fix_modes(catalogue, wrong):
        pass  # belongs to another publisher, who has set it, or `verify` reports it


def _set(tree: Tree, wrong: WrongMode) -> None:
    """Set mode and group of the file that was checked, whatever else has its name now."""
    if wrong.anchor is None:
        raise OSError(errno.EPERM, UNPROVEN)
    with ExitStack() as opened:
        anchor = handle = opened.enter_context(closing(tree.open(wrong.anchor.path, os.O_PATH)))
        if wrong.path != wrong.anchor.path:
            below = wrong.path.relative_to(wrong.anchor.path)
            handle = opened.enter_context(closing(open_beneath(anchor, below, os.O_PATH)))
        status = os.fstat(anchor)
        if inode_of(status) != wrong.anchor.inode or (handle != anchor and not is_closed(status)):
            raise OSError(errno.ESTALE, "was replaced meanwhile")
        if os.fstat(handle).st_gid != wrong.group:
            os.chown(f"/proc/self/fd/{handle}", -1, wrong.group)
        change_mode(handle, wrong.mode)


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


def _compare(
    path: Path, status: os.stat_result, root: tuple[int, int], *, readers: str | None, is_root: bool
) -> WrongMode | None:
    """Compare a path with the catalogue's directory.

    `readers`: Group of an image that only a group may read; empty for whichever it has; None for another file.
    """
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return None
    root_mode, root_group = root
    mode, closed = stat.S_IMODE(status.st_mode), readers is not None
    new = (mode & ~0o2077) | (0o040 if closed else _wanted_bits(status.st_mode, root_mode))
    new = root_mode if is_root else new
    group = root_group if root_mode & stat.S_ISGID and not closed else status.st_gid
    if readers:
        with suppress(KeyError):  # no group of this machine
            group = grp.getgrnam(readers).gr_gid
    if (new, group) == (mode, status.st_gid):
        return None
    found, wanted_text = _show(status.st_mode, status.st_gid), _show(stat.S_IFMT(status.st_mode) | new, group)
    return WrongMode(path, found, wanted_text, new, group, None)


def _wanted_bits(mode: int, root: int) -> int:
    if stat.S_ISDIR(mode):
        return root & (0o077 | stat.S_ISGID)
    return root & (0o077 if mode & stat.S_IXUSR else 0o066)


def _show(mode: int, group: int) -> str:
    name = str(group)
    with suppress(KeyError):
        name = grp.getgrgid(group).gr_name
    return f"{stat.filemode(mode)} {name}"
