"""Open a file below an open directory without following links, one part of its path after the other."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Close a descriptor at the end of the block: `with closing(os.open(...)) as place`."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_beneath(directory: int, path: str | PurePath, flags: int, mode: int = 0o600) -> int:
    """Open a path relative to an open directory and return its descriptor; no part of the path may be a link.

    `flags`: As for `os.open`. `O_NOFOLLOW` is added.
    `mode`: Mode of a file that is created.

    Raises OSError (ELOOP if a part is a symbolic link, EXDEV if the path leads out of the directory, or what `os.open`
    raises).
    """
    parts = PurePath(path).parts or (".",)
    if ".." in parts or PurePath(path).is_absolute():
        raise OSError(errno.EXDEV, "leads out of its directory", str(path))
    at = os.dup(directory)
    try:
        for part in parts[:-1]:
            at, before = _open(at, part, os.O_PATH | os.O_DIRECTORY), at
            os.close(before)
        return _open(at, parts[-1], flags, mode)
    finally:
        os.close(at)


def _open(directory: int, name: str, flags: int, mode: int = 0) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=directory)
    except OSError as err:
        # the kernel reports ENOTDIR for a link, too, if a directory is requested
        if err.errno == errno.ELOOP or (err.errno == errno.ENOTDIR and _is_link(directory, name)):
            raise OSError(errno.ELOOP, "is or contains a symbolic link, which is not followed here", name) from None
        raise


def _is_link(directory: int, name: str) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
