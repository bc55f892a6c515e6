"""A directory below which no symbolic link is followed: read, write, list, rename and remove what is in it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hpcmod.core.fs.beneath import closing, open_beneath
from hpcmod.core.fs.reading import as_regular_file, read_whole
from hpcmod.core.fs.removal import is_open_to, remove_at
from hpcmod.core.fs.temporary import clear_leftovers_of, temporary_name

_HANDLE = os.O_PATH  # a handle of a path; nothing is read or written through it
_DIRECTORY = _HANDLE | os.O_DIRECTORY


@dataclass(frozen=True)
class Tree:
    """A directory and everything below it.

    Paths are relative to the root, or start with it. The user decides how the root itself is reached: links on
    the way to it are followed. Nothing stays open between two calls.

    Raises OSError from every method, with the complete path: ELOOP at a forbidden link, EXDEV if a path leads out of
    the tree, or the system's error.
    """

    root: Path

    def open(self, path: Path | str, flags: int, mode: int = 0o600) -> int:
        """Open a path and return its descriptor; `flags` as for `os.open`."""
        with self._named(path), self._opened_root() as root:
            return open_beneath(root, self._relative(path), flags, mode)

    def open_file(self, path: Path | str) -> BinaryIO:
        """Open a regular file for reading."""
        with self._named(path):
            return as_regular_file(self.open(path, os.O_RDONLY | os.O_NONBLOCK), path)

    def open_checked(self, path: Path | str, check: Callable[[os.stat_result], None]) -> BinaryIO:
        """Open a regular file for reading after checking every directory on the way to it.

        `check`: Called with the status of each directory below the root and then of the file, all of them open: no one
            can replace one between the check and its use. Its exceptions are passed on.
        """
        parts = self._relative(path).parts
        with self._named(path), self._opened_root() as root, contextlib.ExitStack() as opened:
            handle = root
            for part in parts[:-1]:
                handle = open_beneath(handle, part, _DIRECTORY)
                opened.callback(os.close, handle)
                check(os.fstat(handle))
            file = as_regular_file(open_beneath(handle, parts[-1], os.O_RDONLY | os.O_NONBLOCK), path)
            with contextlib.ExitStack() as unchecked:
                unchecked.callback(file.close)
                check(os.fstat(file.fileno()))
                unchecked.pop_all()
            return file

    def read(self, path: Path | str, limit: int) -> bytes:
        """Return the content of a regular file that has at most `limit` bytes."""
        with self._named(path), self.open_file(path) as file:
            return read_whole(file, path, limit)

    def write(self, path: Path | str, content: str | bytes, *, mode: int = 0o644) -> None:
        """Write a file atomically; its directory must exist."""
        with self.parent(path) as (place, name):
            write_at(place, name, content, mode)

    def symlink(self, path: Path | str, target: str) -> None:
        """Make a symbolic link atomically; an existing link or file of that name is replaced."""
        with self.parent(path) as (place, name):
            link_at(place, name, target)

    def status(self, path: Path | str) -> os.stat_result:
        """Return the `lstat` status of a path."""
        with self.parent(path) as (place, name):
            return os.stat(name, dir_fd=place, follow_symlinks=False)

    def read_link(self, path: Path | str) -> str:
        """Return the target of a symbolic link, which is not followed."""
        with self.parent(path) as (place, name):
            return os.readlink(name, dir_fd=place)

    def names(self, path: Path | str = "") -> list[str]:
        """Return the names in a directory, sorted; empty if the directory does not exist."""
        return [name for name, _ in self.entries(path)]

    def entries(self, path: Path | str = "") -> list[tuple[str, os.stat_result]]:
        """Return the names in a directory, sorted, each with its `lstat` status; empty if there is no directory."""
        try:
            place = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            return []
        with closing(place), os.scandir(place) as found:
            return sorted(_statuses(found), key=lambda entry: entry[0])

    def make_directory(self, path: Path | str, mode: int | None = None) -> None:
        """Create a directory and its missing parents in the tree; do nothing if it exists.

        `mode`: Mode of those that are created, whatever the umask; None for 0777 less the umask.
        """
        with self._named(path), self._opened_root() as root:
            at = os.dup(root)
            try:
                for part in self._relative(path).parts:
                    at, before = _step_into(at, part, mode), at
                    os.close(before)
            finally:
                os.close(at)

    def change_mode(self, path: Path | str, mode: int) -> None:
        """Set the mode of a regular file or a directory."""
        with closing(self.open(path, _HANDLE)) as handle, self._named(path):
            change_mode(handle, mode)

    def rename(self, old: Path | str, new: Path | str, *, open_to: int | None = None) -> None:
        """Rename within the tree, replacing an existing target, as `os.replace` does.

        `open_to`: Fail unless this group, or everyone, may rename entries of the old directory.
        """
        with self.parent(old) as (source, before), self.parent(new) as (target, after):
            if open_to is not None and not is_open_to(os.fstat(source), open_to):
                raise OSError(errno.EPERM, "only its owner may change its directory, which may be another user's")
            os.replace(before, after, src_dir_fd=source, dst_dir_fd=target)

    def link(self, old: Path | str, new: Path | str) -> None:
        """Give a regular file a second name (a hard link), replacing a file of that name.

        Raises OSError (ELOOP if it is not a regular file, or as `os.link`: EXDEV, EPERM or EMLINK where that is not
        possible).
        """
        with self.parent(old) as (source, before), self.parent(new) as (target, after):
            temporary = temporary_name(after)
            os.link(before, temporary, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
            try:
                if not stat.S_ISREG(os.stat(temporary, dir_fd=target, follow_symlinks=False).st_mode):
                    raise OSError(errno.ELOOP, "is not a regular file")
                os.replace(temporary, after, src_dir_fd=target, dst_dir_fd=target)
            finally:
                remove_at(target, temporary)  # replacing a name of the same file leaves it

    def remove(self, path: Path | str) -> None:
        """Remove a file, a link or an empty directory; do nothing if it does not exist.

        A directory that is not empty is renamed out of the way: where a file is expected, another user put it there,
        and its content may be anyone's.
        """
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self.parent(path) as (place, name):
            if not stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=place)
                return
            try:
                os.rmdir(name, dir_fd=place)
            except OSError:  # the content of a directory that another user put there may be anyone's
                os.rename(name, temporary_name(name), src_dir_fd=place, dst_dir_fd=place)

    def remove_empty(self, path: Path | str) -> None:
        """Remove a directory if it is empty; do nothing if it is not, or if this user has no permission."""
        with contextlib.suppress(OSError), self.parent(path) as (place, name):
            os.rmdir(name, dir_fd=place)

    def remove_all(self, path: Path | str, *, open_to: int | None = None) -> None:
        """Remove a file, link or directory with its content, as `remove_path` does; do nothing if it does not exist."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self.parent(path) as (place, name):
            remove_at(place, name, open_to=open_to)

    @contextlib.contextmanager
    def parent(self, path: Path | str) -> Iterator[tuple[int, str]]:
        """Open the directory that contains a path; yield its descriptor, and the name in it."""
        relative = self._relative(path)
        if not relative.name:
            raise OSError(errno.EINVAL, "is the root of its tree", str(self.root))
        above = relative.parent
        with self._named(path), self._opened_root() as root, closing(open_beneath(root, above, _DIRECTORY)) as place:
            yield place, relative.name

    def _relative(self, path: Path | str) -> Path:
        try:
            return Path(path).relative_to(self.root) if Path(path).is_absolute() else Path(path)
        except ValueError:
            raise OSError(errno.EXDEV, "leads out of its directory", str(path)) from None

    def _opened_root(self) -> AbstractContextManager[int]:
        return closing(os.open(self.root, _DIRECTORY))

    @contextlib.contextmanager
    def _named(self, path: Path | str) -> Iterator[None]:
        """Use the complete path in errors: the system reports only the path it was called with."""
        try:
            yield
        except OSError as err:
            err.filename = str(self.root / path)
            raise


def write_file(path: Path | str, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file atomically; an existing link of that name is replaced, not followed."""
    Tree(Path(path).parent).write(Path(path).name, content, mode=mode)


def write_at(directory: int, name: str, content: str | bytes, mode: int) -> None:
    """Write a file atomically in an open directory, and remove what killed processes left of it."""
    clear_leftovers_of(directory, name)
    temporary = temporary_name(name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            os.fchmod(file.fileno(), mode)  # whatever the umask
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        remove_at(directory, temporary)
        raise


def link_at(directory: int, name: str, target: str) -> None:
    """Create a symbolic link in an open directory, replacing a file of that name, as `write_at` does."""
    clear_leftovers_of(directory, name)
    temporary = temporary_name(name)
    os.symlink(target, temporary, dir_fd=directory)
    try:
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        remove_at(directory, temporary)
        raise


def _statuses(found: Iterator[os.DirEntry[str]]) -> Iterator[tuple[str, os.stat_result]]:
    for entry in found:
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            yield entry.name, entry.stat(follow_symlinks=False)


def _step_into(directory: int, name: str, mode: int | None) -> int:
    """Open a directory in another, and create it first if it does not exist."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o777 if mode is None else 0o700, dir_fd=directory)
        made = open_beneath(directory, name, _DIRECTORY)
        if mode is not None:
            change_mode(made, mode)
        return made
    return open_beneath(directory, name, _DIRECTORY)


def change_mode(handle: int, mode: int) -> None:
    """Set the mode of an open regular file or directory; `O_PATH` is enough."""
    kind = os.fstat(handle).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise OSError(errno.ELOOP, "is neither a regular file nor a directory")
    os.chmod(f"/proc/self/fd/{handle}", mode)  # fchmod refuses a handle; this path points to the open file
