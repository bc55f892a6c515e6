"""Remove a file, a link or a directory with all that is in it; what a link leads to is never touched."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 250  # levels, each of which takes an open file: processes may have 1,024


def remove_path(path: Path | str) -> None:
    """Remove what has a name, whatever it is; nothing happens if there is nothing.

    Raises
    ------
    OSError
        If something in it cannot be removed; the rest is gone.
    """
    parent, name = os.path.split(os.path.abspath(path))
    try:
        place = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        remove_at(place, name)
    finally:
        os.close(place)


def prune(directory: Path) -> None:
    """Remove a directory if it is empty; nothing happens if it is not, or if this user may not."""
    try:
        directory.rmdir()
    except OSError:
        return


def remove_at(directory: int, name: str) -> None:
    """Remove what has a name in an open directory, as `remove_path` does."""
    _remove(directory, name, _DEEPEST)


def empty(directory: int) -> None:
    """Remove all that is in an open directory, whatever its name is now."""
    _remove_all(directory, _DEEPEST)


def _remove(directory: int, name: str, levels: int) -> None:
    try:
        is_directory = stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        if is_directory:
            _empty(directory, name, levels)
            os.rmdir(name, dir_fd=directory)
        else:
            os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return


def _empty(directory: int, name: str, levels: int) -> None:
    if not levels:
        raise OSError(errno.ENAMETOOLONG, "is nested too deeply, remove it with rm -r", name)
    inside = os.open(name, _DIRECTORY, dir_fd=directory)
    try:
        _remove_all(inside, levels - 1)
    finally:
        os.close(inside)


def _remove_all(directory: int, levels: int) -> None:
    fault: OSError | None = None
    for name in os.listdir(directory):
        try:
            _remove(directory, name, levels)
        except OSError as err:
            fault = fault or err
    if fault:
        raise fault
