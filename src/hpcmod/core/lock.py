"""A lock that names its holder: wait for a live holder, take the lock over from one that is known to be dead.

The lock is a small file that gets its name by a hard link, which is atomic on every file system that has links,
including NFS and Lustre. A holder is known to be dead only in the same boot of the same machine and in the same
namespaces: there the kernel knows whether the process exists. Everywhere else only the heartbeat counts, that is,
the times of the file, which its holder touches every few seconds; if they stop changing, the user decides.

docs/explanation/locks.md says on which file systems this is correct, and why.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from hpcmod.core.errors import FULL, BadInputError, BusyError
from hpcmod.core.fs.anchored import anchored_at, renamed_in_errors
from hpcmod.core.fs.beneath import closing
from hpcmod.core.fs.ownership import explain_sticky, user_name
from hpcmod.core.fs.temporary import clear_leftovers, start_of, temporary_name
from hpcmod.core.log import Logger
from hpcmod.core.values.json_form import parse_json

_LOG = Logger(__name__)

HEARTBEAT = 5.0
"""Seconds between two touches of a held lock."""

SILENCE = 60.0
"""Seconds without a heartbeat after which to stop waiting for a holder that cannot be checked."""

POLL = 0.2
"""Seconds between two checks of a lock that is being waited for."""

_LIMIT = 4096  # bytes of a lock file


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    host: str
    pid: int
    started: str
    """Start time of the process in clock ticks since boot; empty if unknown."""
    user: str
    since: str
    machine: str = ""
    """Identifies this boot of this machine and its process and network namespaces; empty if unknown."""
    token: str = ""
    """Random: no two locks share it."""

    @classmethod
    def me(cls) -> Holder:
        """Return the holder that describes this process."""
        since, user = time.strftime("%Y-%m-%d %H:%M:%S"), user_name(os.getuid())
        pid = os.getpid()
        return cls(socket.gethostname(), pid, _start_of(pid), user, since, _machine(), secrets.token_hex(8))

    def is_dead(self) -> bool:
        """Return whether the process is known to be gone; False where that cannot be known from here."""
        if not self.machine or self.machine != _machine():
            return False
        try:
            os.kill(self.pid, 0)  # reaches every process, even where /proc is mounted with hidepid
        except (ProcessLookupError, OverflowError):
            return True
        except OSError:  # it belongs to another user
            pass
        started = _start_of(self.pid)
        return bool(started and self.started) and started != self.started

    def __str__(self) -> str:
        """Describe the process for a message."""
        return f"process {self.pid} of {self.user} on {self.host}, since {self.since}"


def _start_of(pid: int) -> str:
    """Return when a process started, as `start_of`; empty if /proc is that of another namespace."""
    with contextlib.suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):  # noqa: PTH115 - no Path is needed
            return start_of(pid)
    return ""


def _machine() -> str:
    """Return an ID of the boot and two namespaces, shared by processes that can see each other; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        spaces = [str(Path(f"/proc/self/ns/{name}").stat().st_ino) for name in ("pid", "net")]
        return "/".join([boot, *spaces])
    except OSError:
        return ""


def lock_name(directory: str) -> str:
    """Return the name of an installation's lock, which stays short for any path because file names have a limit."""
    return f"hpcmod_{Path(directory).parent.name[:60]}_{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}"


@dataclass(frozen=True)
class _Seen:
    """A lock file's state at the time it was read."""

    holder: Holder
    file: tuple[int, int]
    """Device and inode."""
    beat: tuple[int, int]
    """Times of its last change; compared only with each other, so clock differences do not matter."""


def read_holder(path: Path) -> Holder | None:
    """Return the holder of a lock; None if it is free.

    Raises BusyError if the file is not a lock.
    """
    seen = _look(path)
    return seen.holder if seen else None


def is_held(path: Path) -> bool:
    """Return whether a lock has a holder that is not known to be dead, or is something that cannot be read."""
    try:
        holder = read_holder(path)
    except (BusyError, OSError):
        return True
    return holder is not None and not holder.is_dead()


def _look(path: Path) -> _Seen | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as err:
        if err.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise _not_ours(path, os.strerror(err.errno)) from err
        raise
    with closing(descriptor):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LIMIT:
            raise _not_ours(path, "not a small regular file")
        text = os.read(descriptor, _LIMIT)
    try:
        holder = parse_json(Holder, text, "its content", limit=_LIMIT)
    except BadInputError as err:
        touched = f"{user_name(status.st_uid)} touched it {max(time.time() - status.st_mtime, 0):.0f} s ago"
        raise _not_ours(path, err.message if text else f"empty, as on a full disk; {touched}") from err
    if not holder.pid:
        raise _not_ours(path, "the process ID is not valid")
    return _Seen(holder, (status.st_dev, status.st_ino), (status.st_mtime_ns, status.st_ctime_ns))


def _not_ours(path: Path, why: str) -> BusyError:
    return BusyError(
        f"{path} is not an hpcmod lock file: {why}",
        explain_sticky(path) or f"If no hpcmod process is running, remove it: rm {path}",
    )


@contextlib.contextmanager
def hold(
    path: Path,
    *,
    limit: float | None = None,
    tell: Callable[[str], None],
    on_stale: Callable[[], None] = lambda: None,
    on_wait: Callable[[], None] = lambda: None,
    below: Path | None = None,
) -> Iterator[bool]:
    """Hold a lock while the block runs; yield whether there was a wait for another process.

    `path`: The lock file; its directory is created if it does not exist.
    `limit`: Seconds to wait for a live holder; None to wait forever.
    `tell`: Called with a line for the user: the holder that is waited for, or the lock that was cleared.
    `on_stale`: Called after taking over a dead process's lock, to remove what else that process left.
    `on_wait`: Called every `POLL` seconds during the wait; an exception from it ends the wait.
    `below`: A directory that others may write too and that contains the lock: no link below it is followed.

    Raises BusyError if the limit passed, or a holder that cannot be checked gave no heartbeat for `SILENCE` seconds;
    OSError (ELOOP if there is a link below the shared directory).
    """
    with anchored_at(path, below) as anchored:
        clear_leftovers(anchored.parent, path.name)
        with renamed_in_errors(anchored, path):
            waited, mine = _acquire(anchored, limit, tell, on_stale, on_wait)
        _LOG.debug("locked %s%s", path, " after waiting" if waited else "")
        stop = threading.Event()
        heart = threading.Thread(target=_beat, args=(mine, stop), daemon=True)
        heart.start()
        try:
            yield waited
        finally:
            stop.set()
            heart.join()
            _LOG.debug("unlocking %s", path)
            try:
                if _is_at(anchored, mine):  # otherwise it was removed by hand, and this is another process's lock
                    anchored.unlink(missing_ok=True)
            finally:
                os.close(mine)
                clear_leftovers(anchored.parent, path.name)


@contextlib.contextmanager
def hold_file(path: Path, *beside: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock for making a file, and remove what killed processes left of it and of those beside it."""
    with hold(path.with_name(f".{path.name}.lock"), tell=tell):
        for file in (path, *beside):
            clear_leftovers(file.parent, file.name, alone=True)
        yield


def _beat(mine: int, stop: threading.Event) -> None:
    while not stop.wait(HEARTBEAT):
        with contextlib.suppress(OSError):  # the next beat may succeed; waiting processes judge the silence
            os.utime(mine)
            if not os.fstat(mine).st_size:
                _sign(mine)


def _acquire(
    path: Path,
    limit: float | None,
    tell: Callable[[str], None],
    on_stale: Callable[[], None],
    on_wait: Callable[[], None],
) -> tuple[bool, int]:
    """Take the lock; return whether there was a wait, and the descriptor of the lock file."""
    began = heard = time.monotonic()
    last: _Seen | None = None
    told: Holder | None = None
    while True:
        mine = None if os.path.lexists(path) else _take(path)
        if mine is not None:
            return told is not None, mine
        seen = _look(path)
        if seen is None:
            continue
        mine = _take(path, dead=seen) if seen.holder.is_dead() else None
        if mine is not None:
            _LOG.info("took over %s, which was held by dead %s", path, seen.holder)
            tell(f"removing the lock of {seen.holder}, which no longer exists")
            on_stale()
            return told is not None, mine
        now = time.monotonic()
        if last is None or (seen.file, seen.beat) != (last.file, last.beat):
            last, heard = seen, now
        if seen.holder != told:
            told = seen.holder
            _LOG.info("waiting for %s, held by %s", path, told)
            tell(f"waiting for {told}")
        _check_heartbeat(path, seen, now - heard)
        if limit is not None and now - began >= limit:
            raise BusyError(f"{path} is held by {told}", "Wait until it ends, or set a longer --wait-on-lock-limit.")
        on_wait()
        time.sleep(POLL)


def _check_heartbeat(path: Path, seen: _Seen, silence: float) -> None:
    """Raise BusyError for a silent holder, unless it is known to be alive: it may only be suspended."""
    if silence > SILENCE and (seen.holder.machine != _machine() or seen.holder.is_dead()):
        raise BusyError(
            f"{path} is held by {seen.holder}, with no heartbeat for {silence:.0f} s",
            explain_sticky(path)
            or f"If that process no longer exists, for example after a reboot, remove its lock: rm {path}",
        )


def _take(path: Path, *, dead: _Seen | None = None) -> int | None:
    """Take the lock, a free one or that of a dead process, and return its descriptor; None if another has it."""
    temporary = path.with_name(temporary_name(path.name))
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mine = os.open(temporary, flags, 0o600)
    try:
        _sign(mine)
        os.fchmod(mine, 0o644)  # whatever the umask: others must be able to read whom they wait for
        if dead is None:
            _link(mine, temporary, path)
        else:
            with _unchanged(path, dead) as unchanged:
                if unchanged:  # never removed first: a process that took it then would not know that it has to clear up
                    temporary.replace(path)
        if _is_at(path, mine):
            return mine
    except FileExistsError:
        if _is_at(path, mine):  # NFS: the link was made, and the first reply was lost
            return mine
    except FileNotFoundError:
        if _is_at(path, mine):  # NFS: it was renamed, and the first reply was lost
            return mine
        if os.fstat(mine).st_nlink:  # otherwise another user has removed our file: try again
            raise
    except BaseException as err:
        os.close(mine)
        if isinstance(err, OSError) and err.filename in (None, str(temporary), f"/proc/self/fd/{mine}"):
            err.filename, err.filename2 = str(path), None
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    os.close(mine)
    return None


def _sign(mine: int) -> None:
    """Write who holds a lock into it; on a full disk it stays empty, as what frees space takes locks, too."""
    try:
        os.pwrite(mine, json.dumps(asdict(Holder.me())).encode(), 0)
    except OSError as err:
        if err.errno not in FULL:
            raise


def _link(mine: int, temporary: Path, path: Path) -> None:
    """Link our file to the lock's name, by descriptor: another user may have replaced the file at its first name."""
    with closing(os.open(path.parent, os.O_PATH | os.O_DIRECTORY)) as place:
        if Path("/proc/self/fd").is_dir():
            os.link(f"/proc/self/fd/{mine}", path.name, dst_dir_fd=place, follow_symlinks=True)
        else:
            os.link(temporary, path, follow_symlinks=False)


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether a path still names an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def clear_dead(path: Path) -> bool:
    """Remove a lock if its holder is known to be dead; return whether it was removed."""
    seen = _look(path)
    if seen is None or not seen.holder.is_dead():
        return False
    with _unchanged(path, seen) as unchanged:
        if unchanged:
            path.unlink(missing_ok=True)
        return unchanged


@contextlib.contextmanager
def _unchanged(path: Path, dead: _Seen) -> Iterator[bool]:
    """Yield whether a dead process still holds the lock, and keep it so while the block runs.

    Every process that may remove or replace such a lock runs on the same machine (see `Holder.is_dead`), so a mutex in
    its kernel is enough: no process can remove a lock that was taken between the check and the removal.
    """
    with _alone(path) as alone:
        now = _look(path) if alone else None
        yield now is not None and (now.file, now.holder) == (dead.file, dead.holder)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Keep out other processes on this machine; yield False if another one is inside.

    A name in the kernel's abstract socket namespace needs no flock support in the file system, leaves no file, and is
    released when its process ends.
    """
    place = path.parent.stat()
    digest = hashlib.sha256(f"{place.st_dev}:{place.st_ino}:{path.name}".encode(errors="surrogateescape")).hexdigest()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mutex:
        try:
            mutex.bind(f"\0hpcmod-lock-{digest}")
        except OSError as err:
            if err.errno != errno.EADDRINUSE:
                raise
            yield False
            return
        yield True
