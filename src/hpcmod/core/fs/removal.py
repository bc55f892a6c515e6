"""Remove a file, a link or a directory with its content; the target of a link is never touched."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from hpcmod.core.fs.beneath import closing

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 250  # levels, each of which needs an open file: processes may have 1,024


def remove_path(path: Path | str, *, open_to: int | None = None) -> None:
    """Remove a file, link or directory of any kind; do nothing if it does not exist.

    `open_to`: Empty only directories that this group, or everyone, may write. Any user who may write a shared directory
        can rename another user's private directory into it: this way, only what they could remove themselves is
        removed.

    Raises OSError if something in it cannot be removed; the rest is gone.
    """
    parent, name = os.path.split(os.path.abspath(path))
    try:
        place = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    with closing(place):
        remove_at(place, name, open_to=open_to)


def prune(directory: Path) -> None:
    """Remove a directory if it is empty; do nothing if it is not empty, or if this user has no permission."""
    try:
        directory.rmdir()
    except OSError:
        return


def remove_at(directory: int, name: str, *, open_to: int | None = None) -> None:
    """Remove an entry of an open directory, as `remove_path` does."""
    _remove(directory, name, _DEEPEST, open_to)


def empty(directory: int) -> None:
    """Remove everything in an open directory, whatever its name is now."""
    _remove_all(directory, _DEEPEST, None)


def is_open_to(status: os.stat_result, group: int) -> bool:
    """Return whether all members of a group may remove entries of a directory, regardless of their owner."""
    by_group = status.st_gid == group and status.st_mode & stat.S_IWGRP
    return bool((by_group or status.st_mode & stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX)


def names_in(directory: int) -> list[str]:
    """Return the names in a directory that is open for reading.

    It is rewound first: otherwise btrfs lists what was in it when it was opened or last rewound (Linux 6.18).
    """
    os.lseek(directory, 0, os.SEEK_SET)
    return os.listdir(directory)


def _remove(directory: int, name: str, levels: int, open_to: int | None) -> None:
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            _empty(directory, name, levels, open_to)
            os.rmdir(name, dir_fd=directory)
        else:
            os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return


def _empty(directory: int, name: str, levels: int, open_to: int | None) -> None:
    if not levels:
        raise OSError(errno.ENAMETOOLONG, "is nested too deeply, remove it with rm -r", name)
    with closing(os.open(name, _DIRECTORY, dir_fd=directory)) as inside:
        if open_to is not None and not is_open_to(os.fstat(inside), open_to) and names_in(inside):
            raise OSError(errno.EPERM, "only its owner may change this directory, which may be another user's", name)
        _remove_all(inside, levels - 1, open_to)


def _remove_all(directory: int, levels: int, open_to: int | None) -> None:
    fault: OSError | None = None
    for name in names_in(directory):
        try:
            _remove(directory, name, levels, open_to)
        except OSError as err:
            fault = fault or err
    if fault:
        raise fault
