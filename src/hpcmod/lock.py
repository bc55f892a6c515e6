"""A lock that says who holds it, so that one whose holder is dead can be told from one to wait for.

The lock is a small file made whole by a hard link (atomic on NFS and Lustre too, where flock may be missing). It names
host, process and the time that process started. On the holder's host anybody can see whether it still lives; elsewhere
only its heartbeat tells: the file's time of change, touched every few seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from hpcmod.errors import BusyError
from hpcmod.fs.reading import UnusableFileError, as_regular_file, read_file
from hpcmod.fs.temporary import clear_leftovers, temporary_name

HEARTBEAT = 5.0
"""Seconds between two touches of a held lock."""

SILENCE = 60.0
"""Seconds without a heartbeat after which another host's lock is no longer waited for."""

POLL = 0.2
"""Seconds between two looks at a lock that is waited for."""

_LIMIT = 64 << 10  # bytes of a lock
_LONG = 120  # bytes of a name; with a host's 64 and two numbers it stays below the 255 that Linux takes


@dataclass(frozen=True)
class Holder:
    """Who holds a lock."""

    host: str
    pid: int
    started: str
    """Start of the process in clock ticks since boot, and the boot's id: a later process of that number differs."""
    user: str
    since: str

    @classmethod
    def me(cls) -> Holder:
        """Describe this process."""
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        return cls(socket.gethostname(), os.getpid(), _start_of(os.getpid()), _user_name(), since)

    def is_dead(self) -> bool:
        """Say whether the process is known to be gone; False where that cannot be known from this host."""
        return self.host == socket.gethostname() and _start_of(self.pid) != self.started

    def __str__(self) -> str:
        """Name the process for a message."""
        return f"process {self.pid} of {self.user} on {self.host}, since {self.since}"


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry in passwd
        return f"user {os.getuid()}"


def _start_of(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    # killed, but its parent has not asked for it yet: it holds nothing any more
    return "" if fields[0] in "ZX" else f"{fields[19]}@{boot}"


def lock_name(directory: str) -> str:
    """Name the lock of an installation, short whatever the length of its path: there is a limit to names of files."""
    return f"hpcmod_{Path(directory).parent.name[:60]}_{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}"


def read_holder(path: Path) -> Holder | None:
    """Read who holds a lock; None if nobody does."""
    try:
        return Holder(**json.loads(read_file(path, _LIMIT)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, RecursionError, UnusableFileError) as err:
        raise BusyError(
            f"{path} is not one of our locks: {err}", f"Remove it if no installation runs: rm {path}"
        ) from err


@contextlib.contextmanager
def hold(
    path: Path,
    *,
    limit: float | None,
    tell: Callable[[str], None],
    on_stale: Callable[[], None],
    on_wait: Callable[[], None] = lambda: None,
) -> Iterator[bool]:
    """Hold a lock while the block runs; the value is whether somebody else was waited for.

    Parameters
    ----------
    path
        The lock file; its directory is made if it does not exist.
    limit
        Seconds to wait for a holder that lives; None for as long as it takes.
    tell
        Called with a line for the user: who is waited for, what was cleared.
    on_stale
        Called when a dead process's lock was taken over, to clear what else it left.
    on_wait
        Called every `POLL` seconds while somebody is waited for; what it raises ends the waiting.

    Raises
    ------
    BusyError
        If the lock is not to be had: the limit passed, or its holder on another host has fallen silent.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    waited, lock = _acquire(path, limit, tell, on_stale, on_wait)
    stop = threading.Event()
    heart = threading.Thread(target=_beat, args=(lock, stop), daemon=True)
    heart.start()
    try:
        yield waited
    finally:
        stop.set()
        heart.join()
        if _is_still(path, lock):  # somebody was told to remove it, and another process may hold the next one
            path.unlink(missing_ok=True)
        os.close(lock)


def _beat(lock: int, stop: threading.Event) -> None:
    while not stop.wait(HEARTBEAT):
        with contextlib.suppress(OSError):  # the next beat may get through; silence is judged by others
            os.utime(lock)


def _acquire(
    path: Path,
    limit: float | None,
    tell: Callable[[str], None],
    on_stale: Callable[[], None],
    on_wait: Callable[[], None],
) -> tuple[bool, int]:
    """Take the lock; return whether somebody was waited for, and the open lock."""
    began = looked = time.monotonic()
    told: Holder | None = None
    while True:
        with _guard(path):
            lock = _take(path)
            if lock is not None:
                return told is not None, lock
            holder = read_holder(path)
            if holder and holder.is_dead():
                tell(f"clearing the lock of {holder}, which is gone")
                path.unlink(missing_ok=True)
                lock = _take(path)
                if lock is not None:
                    on_stale()
                    return told is not None, lock
                continue
        now = time.monotonic()
        if holder and (holder != told or now - looked > SILENCE):  # it may fall silent while it is waited for
            _check_heartbeat(path, holder)
            looked = now
        if holder and holder != told:
            tell(f"waiting for {holder}")
            told = holder
        if holder and limit is not None and now - began >= limit:
            raise BusyError(f"{path} is held by {holder}", "Wait for it, or give a longer --wait-on-lock-limit.")
        on_wait()
        time.sleep(POLL)


def tidy(path: Path) -> None:
    """Remove what a lock leaves beside itself, which others may be waiting at: they open it anew."""
    guard = _beside(path, "guard")
    with _guard(path) as alone:
        if alone:
            guard.unlink(missing_ok=True)


@contextlib.contextmanager
def _guard(path: Path) -> Iterator[bool]:
    """Let one process of this host at a time look and take: only they may clear a lock of this host.

    The value is False where none can be kept out: no flock on this file system, or another user's file. There the link
    alone decides.
    """
    guard, alone = _beside(path, "guard"), False
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):
            while not alone:
                opened.close()
                file = opened.enter_context(_open_guard(guard))
                fcntl.flock(file, fcntl.LOCK_EX)
                alone = _is_still(guard, file.fileno())
        yield alone


def _open_guard(guard: Path) -> BinaryIO:
    """Open a guard, which is made if it is not there; a link or a FIFO that somebody planted is not one."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return as_regular_file(os.open(guard, flags, 0o666), guard)


def _is_still(path: Path, descriptor: int) -> bool:
    """Say whether a path is still that of an open file: whoever held it before may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _beside(path: Path, suffix: str) -> Path:
    """Name a file beside a lock: with the lock's name in it, or, where that is long, with what stands for it."""
    name = path.name
    if len(os.fsencode(name)) > _LONG:
        name = f".{hashlib.sha256(os.fsencode(name)).hexdigest()}"
    return path.with_name(f"{name}.{suffix}")


def _take(path: Path) -> int | None:
    """Make the lock, and return its descriptor; None if there is one."""
    clear_leftovers(path.parent, path.name)
    mine = path.with_name(temporary_name(path.name))
    lock = os.open(mine, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(lock, json.dumps(asdict(Holder.me())).encode())
        os.fchmod(lock, 0o644)  # whatever the umask: others are to see whom they wait for
        os.link(mine, path, follow_symlinks=False)
    except OSError as err:
        os.close(lock)
        if isinstance(err, FileExistsError):
            return None
        err.filename = err.filename or str(mine)  # a full disk is met while writing, which knows no name
        raise
    finally:
        mine.unlink(missing_ok=True)
    return lock


def _check_heartbeat(path: Path, holder: Holder) -> None:
    """Refuse to wait for another host's process that has been silent; both times are the file server's."""
    probe = path.with_name(temporary_name(path.name))
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        silence = probe.lstat().st_mtime - path.lstat().st_mtime
    except FileNotFoundError:
        return
    finally:
        probe.unlink(missing_ok=True)
    if silence > SILENCE and holder.host != socket.gethostname():
        raise BusyError(
            f"{path} is held by {holder}, of which nothing was heard for {silence:.0f} s",
            f"If that process is gone, remove its lock: rm {path}",
        )
