"""Create a file or a directory privately, next to its final name, and rename it when it is complete."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hpcmod.core.fs.anchored import renamed_in_errors
from hpcmod.core.fs.removal import empty, names_in
from hpcmod.core.fs.temporary import PRIVATE, is_private, resumable_name, temporary_name

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_EXCHANGE = 2  # RENAME_EXCHANGE of linux/fs.h


@dataclass(frozen=True)
class Scratch:
    """A directory that only this user may enter, next to the final name of what is created in it.

    Its paths go through open descriptors (`/proc/PID/fd/N`): they mean the same directories to this process and to
    those it starts, whatever others rename or plant next to them. Errors name the final path instead.
    """

    final: Path
    """The name as given by the caller."""
    directory: Path
    """The private directory."""
    beside: Path
    """The directory of the final name, through which its other entries are accessed."""

    @property
    def path(self) -> Path:
        """Return the temporary path of what will be renamed to `final`."""
        return self.directory / self.final.name

    def put(self) -> None:
        """Rename the file or the new directory to its final name."""
        os.replace(self.path, self.beside / self.final.name)


@contextlib.contextmanager
def scratch(final: Path | str, *, resumable: bool = False) -> Iterator[Scratch]:
    """Create a private directory next to a final name, and remove it at the end.

    `resumable`: If the block raises, keep the content for this user's next process, which gets the same directory. Only
        the holder of a lock may use this.
    """
    final = Path(final)
    place = os.open(final.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.ExitStack() as opened:
        opened.callback(os.close, place)
        name = resumable_name(final.name) if resumable else temporary_name(final.name)
        try:
            private = _open_private(place, name, reuse=resumable)
        except OSError as err:
            err.filename = str(final.parent / name)
            raise
        opened.callback(os.close, private)
        made = Scratch(final, _path_of(private), _path_of(place))
        try:
            with renamed_in_errors(made.path, final), renamed_in_errors(made.beside / final.name, final):
                yield made
        except BaseException:
            if not resumable or not names_in(private):
                _remove_private(place, name, private)
            raise
        _remove_private(place, name, private)


@contextlib.contextmanager
def replacing(final: Path | str) -> Iterator[Path]:
    """Yield a temporary path; rename what the block creates there to the final name, or remove it on an error."""
    with scratch(final) as made:
        yield made.path
        made.put()


@contextlib.contextmanager
def replacing_directory(final: Path | str, check_old: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Yield a new directory, which replaces the final one as a unit unless the block raises.

    `check_old`: Called with the path of the former directory, where no one else can reach it any more, before it is
        removed. If it raises, the former directory gets its name back. Anyone who may write the parent directory can
        give the final name to another user's directory, so without a check only an empty one is replaced.

    Raises OSError (ENOTEMPTY if the former directory is not empty and there is no check).

    Notes
    -----
    Where the file system can exchange two names (most can, Lustre cannot), the directory exists at every moment.
    `clear_leftovers` removes the complete directories that a killed process leaves.
    """
    Path(final).parent.mkdir(parents=True, exist_ok=True)
    with scratch(final) as made:
        made.path.mkdir()
        yield made.path
        target = made.beside / made.final.name
        if not os.path.lexists(target):
            made.put()
        else:
            _put_over(made, target, check_old or partial(_check_empty, made.final))


def _put_over(made: Scratch, target: Path, check_old: Callable[[Path], None]) -> None:
    old = made.path if _exchange(made.path, target) else made.directory / "old"
    if old != made.path:
        target.rename(old)
        made.put()
    try:
        check_old(old)
    except BaseException:
        if not _exchange(old, target):
            target.rename(made.directory / "new")
            old.rename(target)
        raise


def _check_empty(final: Path, old: Path) -> None:
    if not stat.S_ISDIR(old.lstat().st_mode) or os.listdir(old):
        raise OSError(errno.ENOTEMPTY, "exists and is not empty", str(final))


def _open_private(place: int, name: str, *, reuse: bool) -> int:
    """Create a private directory and open it; an existing one is reused only if it is private to this user."""
    for _ in range(2):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, PRIVATE, dir_fd=place)
        with contextlib.suppress(NotADirectoryError, PermissionError):
            private = os.open(name, _DIRECTORY, dir_fd=place)
            if is_private(os.fstat(private)) and (reuse or not names_in(private)):
                return private
            os.close(private)
        _free(place, name)
    raise OSError(errno.EEXIST, "another process keeps creating this name", name)


def _free(place: int, name: str) -> None:
    """Free a name that another user has planted; a directory is renamed, because its content may be anyone's."""
    try:
        os.unlink(name, dir_fd=place)
    except FileNotFoundError:
        pass
    except OSError as err:
        if err.errno not in (errno.EISDIR, errno.EPERM):
            raise
        try:
            os.rename(name, f".{secrets.token_hex(8)}.moved-by-hpcmod", src_dir_fd=place, dst_dir_fd=place)
        except PermissionError as denied:
            owner = os.stat(name, dir_fd=place, follow_symlinks=False).st_uid
            raise OSError(denied.errno, f"belongs to user {owner}, and only they may remove it here") from None


def _remove_private(place: int, name: str, private: int) -> None:
    empty(private)
    with contextlib.suppress(OSError):  # renamed by another user: what has the name now is not ours to remove
        os.rmdir(name, dir_fd=place)


def _path_of(descriptor: int) -> Path:
    return Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names atomically; return False where that is not possible."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # glibc 2.28
    here = -100  # AT_FDCWD
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), _EXCHANGE) == 0
