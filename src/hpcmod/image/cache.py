"""The cache of blobs: each under its digest, one process fetching it at a time, shared by a group where it may be.

    DIRECTORY/blobs/sha256/<64 digits>     whole and verified
    DIRECTORY/partial/<64 digits>          what an interrupted fetch left; its digest shows in the end if it is right
    DIRECTORY/locks/<64 digits>            who is fetching it

A directory with the set-group-id bit that its group may write (`chmod 2770`) is shared: what is put there the group may
read, use and remove, whatever the umask of who put it there. Whatever the mode, no link is followed in it, and where
anybody else may write, what is read is verified again while it is read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from hpcmod.errors import BusyError, HpcmodError, LackingError, NoSpaceError, NotFoundError
from hpcmod.fs.ownership import others_may_change
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.fs.tree import Tree
from hpcmod.image.cache_entry import CacheEntry, choose, digits_of, is_blob_name
from hpcmod.image.copy import FULL, free_bytes, write_all_at
from hpcmod.lock import clear_dead, hold, read_holder, tidy

SETTING = "choose another place for the cache: HPCMOD_CACHE=DIRECTORY"
"""What helps where the cache does not fit, as the end of a sentence."""
GC = "hpcmod cache gc"

_DIRECTORIES = ("blobs", "blobs/sha256", "partial", "locks")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
_UNUSABLE = (errno.ELOOP, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENXIO)
"""What opening says of a link, a directory, another user's file, or a socket at the name of a partial blob."""

_say_nothing: Callable[..., None] = lambda *_: None  # noqa: E731 - a default for several callbacks


class Cache:
    """Blobs on disk by digest; see the top of this file for what lies where."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self.tree = Tree(self.directory)

    def path(self, digest: str) -> Path:
        """Return the name of the file of a whole blob, whether it is there or not."""
        return self.directory / "blobs" / "sha256" / digits_of(digest)

    def partial(self, digest: str) -> Path:
        """Return the name of the file of what there is of a blob that is not whole yet."""
        return self.directory / "partial" / digits_of(digest)

    def size_of_partial(self, digest: str) -> int:
        """Return how many bytes an interrupted fetch has left of a blob."""
        try:
            return self.tree.status(self.partial(digest)).st_size
        except OSError:
            return 0

    def find(self, digest: str, size: int) -> Path | None:
        """Find a whole blob, and note that it was used; one of another size is damaged, and removed.

        Its digest is for the reader to verify, in the same pass in which it is used.
        """
        path = self.path(digest)
        try:
            found = self.tree.status(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            raise self.fault(err) from err
        if found.st_size != size or not stat.S_ISREG(found.st_mode):
            self.discard(digest)
            return None
        self._note_use(path)
        return path

    def open(self, digest: str) -> BinaryIO:
        """Open a whole blob; its digest is for the reader to verify.

        Raises
        ------
        FileNotFoundError
            If it is not there any more.
        LackingError
            If it cannot be read.
        """
        try:
            return self.tree.open_file(self.path(digest))
        except FileNotFoundError:
            raise
        except OSError as err:
            raise self.fault(err) from err

    def _note_use(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # another user's, in a cache that only they may write
            file = self.tree.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                os.utime(file)
            finally:
                os.close(file)

    @contextlib.contextmanager
    def lock(
        self,
        digest: str,
        *,
        limit: float | None = None,
        tell: Callable[[str], None] = _say_nothing,
        on_wait: Callable[[], None] = _say_nothing,
    ) -> Iterator[bool]:
        """Hold the right to fetch or remove a blob; see `hpcmod.lock.hold`."""
        self.prepare()
        path, below = self._lock(digest), self.directory
        lock = hold(path, limit=limit, tell=tell, on_stale=_say_nothing, on_wait=on_wait, below=below)
        with contextlib.ExitStack() as held:
            try:
                waited = held.enter_context(lock)
            except OSError as err:
                raise self.fault(err) from err
            yield waited

    def prepare(self) -> None:
        """Make the directories, for the user alone or for the group of a shared directory.

        Raises
        ------
        LackingError
            If they cannot be made or written.
        NoSpaceError
            If the disk is full.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            mode = stat.S_IMODE(self.directory.stat().st_mode)
            for name in _DIRECTORIES:
                self.tree.make_directory(name, mode)
        except OSError as err:
            raise self.fault(err) from err

    def fault(self, err: OSError) -> HpcmodError:
        """Make an error with a cure from one of the operating system's."""
        what = f"{err.filename or self.directory}: {err.strerror}"
        if err.errno in FULL:
            free = free_bytes(self.directory)
            return NoSpaceError(f"{what}; {free} bytes free", f"Free some space there ({GC}), or {SETTING}.")
        return LackingError(what, f"See whether you may write to {self.directory}, or {SETTING}.")

    @property
    def shared(self) -> bool:
        """Whether the directory is its group's."""
        mode = self.directory.stat().st_mode
        return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)

    def others_may_change(self, file: int) -> bool:
        """Return whether anybody else may change an open file of the cache, or what its directories hold."""
        return others_may_change(os.fstat(file)) or any(
            others_may_change(status) for status in (self.directory.stat(), *map(self.tree.status, _DIRECTORIES))
        )

    def open_partial(self, digest: str) -> int:
        """Open what there is of a blob for reading and writing, or an empty file; give the file descriptor.

        Only while its lock is held.
        """
        path = self.partial(digest)
        try:
            found = self._open_usable(path)
            if found is None:
                self.tree.remove(path)
                found = self.tree.open(path, _NEW, 0o600)
            with contextlib.suppress(PermissionError):  # another user's
                os.fchmod(found, 0o600 | (self.directory.stat().st_mode & 0o060 if self.shared else 0))
            return found
        except OSError as err:
            raise self.fault(err) from err

    def _open_usable(self, path: Path) -> int | None:
        """Open what there is of a blob, or an empty file; None where something else was put there."""
        try:
            found = self.tree.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600)
        except OSError as err:
            if err.errno not in _UNUSABLE:
                raise
            return None
        if self._is_partial(os.fstat(found)):
            return found
        os.close(found)
        return None

    def _is_partial(self, status: os.stat_result) -> bool:
        """Return whether a file can be one that was made here, and not one of this user's that others put here.

        A file with a second name is somebody's elsewhere. One with content that the group of a shared cache may not
        read was never a partial blob: to open it to the group would show them what is in it.
        """
        closed = self.shared and status.st_uid == os.geteuid() and not status.st_mode & stat.S_IRGRP
        return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and not (closed and status.st_size)

    def keep(self, digest: str, file: int) -> Path:
        """Give a blob that is whole, verified and on disk for good its name; `file` is the open partial one."""
        partial, path = self.partial(digest), self.path(digest)
        mode = self.directory.stat().st_mode
        with contextlib.suppress(PermissionError):  # resumed from another user's, whose mode is right already
            os.fchmod(file, 0o600 | (mode & 0o044) | (mode & 0o020 if self.shared else 0))
        with contextlib.suppress(IsADirectoryError):
            self.tree.rename(partial, path)
            return path
        self.tree.remove(path)
        self.tree.rename(partial, path)
        return path

    def discard_partial(self, digest: str) -> None:
        """Remove what there is of a blob that is not whole; only while its lock is held."""
        self.tree.remove(self.partial(digest))

    def store(self, digest: str, content: bytes) -> None:
        """Put a small blob there that is in memory, and verified, already."""
        with self.lock(digest):
            self._write(digest, content)

    def load_or_bring(self, digest: str, limit: int, bring: Callable[[], bytes]) -> bytes:
        """Return a small blob from the cache; what is not there is brought, verified, by one process alone."""
        content = self.load(digest, limit)
        if content is None:
            with self.lock(digest):
                content = self.load(digest, limit)
                if content is None:
                    content = bring()
                    self._write(digest, content)
        return content

    def _write(self, digest: str, content: bytes) -> None:
        descriptor = self.open_partial(digest)
        try:
            os.ftruncate(descriptor, 0)
            write_all_at(descriptor, memoryview(content), 0)
            os.fsync(descriptor)
            self.keep(digest, descriptor)
        except OSError as err:
            raise self.fault(err) from err
        finally:
            os.close(descriptor)

    def discard(self, digest: str) -> int:
        """Remove a whole blob, damaged or not; readers that have it open go on. Give the bytes that are free."""
        path = self.path(digest)
        try:
            size = self.tree.status(path).st_size
            self.tree.remove(path)
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as err:
            raise self.fault(err) from err
        return size

    def load(self, digest: str, limit: int) -> bytes | None:
        """Read a small blob and verify it; None if it is not there whole, or is not a small one."""
        try:
            content = self.tree.read(self.path(digest), limit)
        except OSError:
            return None
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            self.discard(digest)
            return None
        self._note_use(self.path(digest))
        return content

    def entries(self) -> list[CacheEntry]:
        """List the blobs, the longest unused first."""
        found = []
        for directory, whole in (("blobs/sha256", True), ("partial", False)):
            for name, status in self._list(directory):
                digest = f"sha256:{name}"
                busy = not whole and self._is_busy(digest)
                found.append(CacheEntry(digest, status.st_size, status.st_mtime, whole, busy))
        return sorted(found, key=lambda entry: (entry.used, entry.digest))

    def _list(self, directory: str) -> list[tuple[str, os.stat_result]]:
        """List what in a directory is named as blobs are."""
        try:
            return [entry for entry in self.tree.entries(directory) if is_blob_name(entry[0])]
        except OSError as err:
            raise self.fault(err) from err

    def _is_busy(self, digest: str) -> bool:
        try:
            holder = read_holder(self._lock(digest))
        except (BusyError, OSError):  # who it is cannot be read, but somebody
            return True
        return holder is not None and not holder.is_dead()

    def _lock(self, digest: str) -> Path:
        return self.directory / "locks" / digits_of(digest)

    def remove(self, digest: str) -> int:
        """Remove a blob, or what there is of it; give the bytes that are free now.

        Raises
        ------
        NotFoundError
            If it is not there.
        BusyError
            If it is being fetched.
        """
        if not any(self._is_there(path) for path in (self.path(digest), self.partial(digest))):
            raise NotFoundError(f"{self.directory}: holds no {digest}", "See what it holds: hpcmod cache ls")
        return self._remove(digest)

    def _is_there(self, path: Path) -> bool:
        try:
            self.tree.status(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as err:
            raise self.fault(err) from err
        return True

    def _remove(self, digest: str) -> int:
        """Remove a whole blob at once, for whoever wants it fetches it anew; a partial one only under its lock."""
        try:
            size = self.discard(digest)
            with self.lock(digest, limit=0):
                size += self.size_of_partial(digest)
                self.discard_partial(digest)
                tidy(self._lock(digest))
        except BusyError:
            if not size:
                raise
        except OSError as err:
            raise self.fault(err) from err
        return size

    def gc(
        self, *, now: float, oldest: float | None = None, most: int | None = None, dry_run: bool = False
    ) -> list[CacheEntry]:
        """Remove what was not used for long, then the longest unused until the rest fits; not what is being fetched.

        Parameters
        ----------
        now
            Unix seconds.
        oldest
            Seconds since its last use after which a blob goes; None keeps all of whatever age.
        most
            Bytes that may stay; None for any number.
        dry_run
            Remove nothing.

        Returns
        -------
        list
            What is gone, or would go.
        """
        chosen = choose(self.entries(), now=now, oldest=oldest, most=most)
        if not dry_run:
            self._clear_dead_locks()
        return [entry for entry in chosen if dry_run or self._removed(entry)]

    def _clear_dead_locks(self) -> None:
        """Remove the locks and the temporary files of processes that were killed."""
        for directory in _DIRECTORIES[1:]:
            with contextlib.suppress(OSError):
                clear_leftovers(self.directory / directory)
        for name, _ in self._list("locks"):
            with contextlib.suppress(HpcmodError, OSError):  # not a lock, or another user's
                clear_dead(self._lock(f"sha256:{name}"))

    def _removed(self, entry: CacheEntry) -> bool:
        try:
            self._remove(entry.digest)
        except BusyError:
            return False
        except LackingError as err:
            if isinstance(err.__cause__, PermissionError):  # another user's
                return False
            raise
        return True
