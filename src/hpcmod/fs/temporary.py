"""Temporary names that tell whose they are, so that what dead processes left can be removed without guessing."""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
from pathlib import Path

from hpcmod.fs.removal import remove_at

_PART = ".hpcmod-part"
_LONGEST = 150  # bytes of the final name that are kept: with all the rest it stays below the 255 that Linux takes


def temporary_name(final: str) -> str:
    """Return a new hidden name for what is to be called `final`: with this process in it, and random digits."""
    pid = os.getpid()
    return f"{_stem(final)}-{_this_machine()}-{pid}-{_start_of(pid)}-{secrets.token_hex(4)}"


def resumable_name(final: str) -> str:
    """Return the hidden name of what this user's next process continues; `clear_leftovers` keeps it."""
    return f"{_stem(final)}+{os.getuid()}"


def clear_leftovers(directory: Path, name: str | None = None, *, alone: bool = False) -> None:
    """Remove the temporary files and directories that dead processes left in a directory.

    Parameters
    ----------
    name
        Remove those of this final name only; None for all.
    alone
        Whether this process holds the lock that everybody takes who writes there: then all of them are leftovers.
        Without it, only those of this user's processes that are known to have ended on this machine go.
    """
    try:
        place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        for found in os.listdir(place):
            stem, separator, token = found.rpartition(f"{_PART}-")
            is_meant = separator and stem.startswith(".") and (name is None or _stem(name) == f"{stem}{_PART}")
            if is_meant and (alone or _is_dead(place, found, token)):
                remove_at(place, found)
    finally:
        os.close(place)


def _stem(final: str) -> str:
    whole = os.fsencode(final)
    if len(whole) > _LONGEST:
        final = f"{os.fsdecode(whole[: _LONGEST - 17])}~{hashlib.sha256(whole).hexdigest()[:16]}"
    return f".{final}{_PART}"


def _is_dead(place: int, name: str, token: str) -> bool:
    """Say whether the process that made a temporary file is known to be gone: one of this user on this machine."""
    machine, _, rest = token.partition("-")
    pid, _, rest = rest.partition("-")
    started = rest.partition("-")[0]
    if machine != _this_machine() or not pid.isdecimal():
        return False
    try:
        ours = os.stat(name, dir_fd=place, follow_symlinks=False).st_uid == os.getuid()
    except FileNotFoundError:
        return False
    return ours and _start_of(int(pid)) != started


@functools.lru_cache(maxsize=1)
def _this_machine() -> str:
    """Return what tells this boot of this machine, and this space of process numbers, from all others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return hashlib.sha256(f"{boot}{os.stat('/proc/self/ns/pid').st_ino}".encode()).hexdigest()[:8]
    except OSError:
        return "unknown"


def _start_of(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; empty if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
