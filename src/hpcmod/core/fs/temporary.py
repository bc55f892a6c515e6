"""Temporary names that identify their owner, so that leftovers of dead processes can be removed without guessing.

Anyone who may write a directory can give any of its entries such a name, even a directory that only its owner can
change. So a directory counts as ours by its mode, which only its owner can set, and never by its name alone.
"""

from __future__ import annotations

import functools
import os
import stat
from contextlib import suppress
from pathlib import Path

from hpcmod.core.fs.beneath import closing
from hpcmod.core.fs.removal import empty, remove_at

PRIVATE = stat.S_ISVTX | stat.S_IRWXU
"""Mode of temporary directories: owner only, with the sticky bit to mark them as ours."""

_PART = ".hpcmod-part"
_LONGEST = 150  # bytes of the final name that are kept: the complete name stays below Linux's limit of 255


def temporary_name(final: str) -> str:
    """Return a new hidden name for what will be called `final`: with this process in it, and random digits."""
    pid = os.getpid()
    return f"{_stem(final)}-{_this_machine()}-{pid}-{start_of(pid)}-{os.urandom(4).hex()}"


def resumable_name(final: str) -> str:
    """Return the hidden name of what this user's next process resumes; `clear_leftovers` keeps it."""
    return f"{_stem(final)}+{os.getuid()}"


def clear_leftovers(directory: Path, name: str | None = None, *, alone: bool = False) -> None:
    """Remove the temporary files and directories that dead processes left in a directory.

    A directory that is not empty is removed only if it belongs to this user and was created with the mode `PRIVATE`.

    `name`: Remove only those of this final name; None for all.
    `alone`: Whether this process holds the lock that every writer of the directory takes: then all of them are
        leftovers. Without it, only those of this user's processes that are known to have ended on this machine are
        removed.
    """
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    with closing(opened):
        _clear(opened, name, alone=alone)


def clear_leftovers_of(directory: int, name: str) -> None:
    """Remove what dead processes left of one final name in an open directory, if it can be listed."""
    with suppress(OSError):
        _clear(directory, name, alone=False)


def _clear(directory: int, name: str | None, *, alone: bool) -> None:
    for entry in os.listdir(f"/proc/self/fd/{directory}"):  # a handle (O_PATH) cannot be listed itself
        stem, separator, token = entry.rpartition(f"{_PART}-")
        is_meant = separator and stem.startswith(".") and (name is None or _stem(name) == f"{stem}{_PART}")
        if is_meant and (alone or _is_dead(directory, entry, token)):
            _remove(directory, entry)


def is_private(status: os.stat_result) -> bool:
    """Return whether a directory is a temporary one of this user, which no one else could write."""
    others = stat.S_IRWXG | stat.S_IRWXO
    return status.st_uid == os.geteuid() and status.st_mode & (stat.S_ISVTX | others) == stat.S_ISVTX


def _remove(directory: int, name: str) -> None:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        remove_at(directory, name)
    elif is_private(status):
        _remove_directory(directory, name)
    else:
        with suppress(OSError):  # another user has renamed a directory of another kind
            os.rmdir(name, dir_fd=directory)


def _remove_directory(directory: int, name: str) -> None:
    """Empty and remove a directory, if it still is a temporary one of ours."""
    with suppress(FileNotFoundError, NotADirectoryError):
        with closing(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)) as opened:
            if not is_private(os.fstat(opened)):
                return
            empty(opened)
        os.rmdir(name, dir_fd=directory)


def _stem(final: str) -> str:
    whole = os.fsencode(final)
    if len(whole) > _LONGEST:
        final = f"{os.fsdecode(whole[: _LONGEST - 17])}~{_sha256(whole)[:16]}"
    return f".{final}{_PART}"


def _is_dead(place: int, name: str, token: str) -> bool:
    """Return whether a temporary file's process, one of this user on this machine, is known to be gone."""
    machine, _, rest = token.partition("-")
    pid, _, rest = rest.partition("-")
    started = rest.partition("-")[0]
    if machine != _this_machine() or not pid.isdecimal():
        return False
    try:
        ours = os.stat(name, dir_fd=place, follow_symlinks=False).st_uid == os.getuid()
    except FileNotFoundError:
        return False
    return ours and start_of(int(pid)) != started


@functools.lru_cache(maxsize=1)
def _this_machine() -> str:
    """Return an ID of this boot of this machine and this PID namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return _sha256(f"{boot}{os.stat('/proc/self/ns/pid').st_ino}".encode())[:8]
    except OSError:
        return "unknown"


def start_of(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; `ended` for a zombie, empty if /proc has none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "ended" if fields[0] in "ZX" else fields[19]


def _sha256(data: bytes) -> str:
    import hashlib  # slow to import, and commands that only read do not need it

    return hashlib.sha256(data).hexdigest()
