"""Open a file below an open directory without following links: with openat2 if available, else step by step."""

from __future__ import annotations

import errno
import functools
import os
import stat
import struct
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_OPENAT2 = 437  # the number is the same on x86_64, aarch64, ppc64le and riscv64
_BENEATH, _NO_SYMLINKS = 0x08, 0x04  # RESOLVE_* of linux/openat2.h
_TRIES = 8  # the kernel returns EAGAIN when something was renamed during the lookup
_LACKING = (errno.ENOSYS, errno.EPERM)  # before Linux 5.6, and under system call filters that do not know openat2


def open_beneath(directory: int, path: str | PurePath, flags: int, mode: int = 0o600) -> int:
    """Open a path relative to an open directory and return its descriptor; no part of the path may be a link.

    `flags`: As for `os.open`. `O_CLOEXEC` and `O_NOFOLLOW` are added.
    `mode`: Mode of a file that is created.

    Raises OSError (ELOOP if a part is a symbolic link, EXDEV if the path leads out of the directory, or what `os.open`
    raises).
    """
    parts = PurePath(path).parts or (".",)
    if ".." in parts or PurePath(path).is_absolute():
        raise OSError(errno.EXDEV, "leads out of its directory", str(path))
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    mode = mode if flags & os.O_CREAT else 0
    try:
        return _open(directory, parts, flags, mode)
    except NotADirectoryError:  # the kernel reports this for a link, too, if a directory is requested
        if flags & os.O_DIRECTORY and _is_link(directory, parts):
            raise _is_a_link(str(path)) from None
        raise


def _is_a_link(path: str) -> OSError:
    return OSError(errno.ELOOP, "is or contains a symbolic link, which is not followed here", path)


def _is_link(directory: int, parts: tuple[str, ...]) -> bool:
    try:
        handle = _open(directory, parts, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0)
    except OSError:
        return False
    try:
        return stat.S_ISLNK(os.fstat(handle).st_mode)
    finally:
        os.close(handle)


def _open(directory: int, parts: tuple[str, ...], flags: int, mode: int) -> int:
    try:
        return _openat2(directory, "/".join(parts), flags, mode)
    except OSError as err:
        if err.errno not in _LACKING:
            raise
    return _step_by_step(directory, parts, flags, mode)


@functools.cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _openat2(directory: int, path: str, flags: int, mode: int) -> int:
    import ctypes  # slow to import, and commands that only read do not need it

    how = struct.pack("=QQQ", flags, mode, _BENEATH | _NO_SYMLINKS)  # struct open_how
    number = errno.EAGAIN
    for _ in range(_TRIES):
        found = int(_libc().syscall(_OPENAT2, directory, os.fsencode(path), how, ctypes.c_size_t(len(how))))
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise _is_a_link(path) if number == errno.ELOOP else OSError(number, os.strerror(number), path)


def _step_by_step(directory: int, parts: tuple[str, ...], flags: int, mode: int) -> int:
    at = os.dup(directory)
    try:
        for part in parts[:-1]:
            at, before = _step_into(at, part), at
            os.close(before)
        return os.open(parts[-1], flags, mode, dir_fd=at)
    except OSError as err:
        raise (_is_a_link(parts[-1]) if err.errno == errno.ELOOP else err) from None
    finally:
        os.close(at)


def _step_into(directory: int, name: str) -> int:
    try:
        return os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise _is_a_link(name) from None
        raise
