"""The cache of blobs: each under its digest, one process fetching it at a time, shared by a group where it may be.

    DIRECTORY/blobs/sha256/<64 digits>     whole and verified
    DIRECTORY/partial/<64 digits>          what an interrupted fetch left; its digest shows in the end if it is right
    DIRECTORY/locks/<64 digits>            who is fetching it

A directory with the set-group-id bit that its group may write (`chmod 2770`) is shared: what is put there the group may
read, use and remove, whatever the umask of who put it there. Any other is the user's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from hpcmod.errors import BusyError, HpcmodError, LackingError, NoSpaceError, NotFoundError
from hpcmod.image.cache_entry import Entry, choose, digits_of, scan
from hpcmod.image.copy import FULL, free_bytes, write_at
from hpcmod.lock import hold, read_holder, tidy

SETTING = "choose another place for the cache: HPCMOD_CACHE=DIRECTORY"
"""What helps where the cache does not fit, as the end of a sentence."""
GC = "hpcmod cache gc"

_say_nothing: Callable[..., None] = lambda *_: None  # noqa: E731 - a default for several callbacks


class Cache:
    """Blobs on disk by digest; see the top of this file for what lies where."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def path(self, digest: str) -> Path:
        """Name the file of a whole blob, whether it is there or not."""
        return self.directory / "blobs" / "sha256" / digits_of(digest)

    def partial(self, digest: str) -> Path:
        """Name the file of what there is of a blob that is not whole yet."""
        return self.directory / "partial" / digits_of(digest)

    def size_of_partial(self, digest: str) -> int:
        """Give how many bytes an interrupted fetch has left of a blob."""
        try:
            return self.partial(digest).stat().st_size
        except OSError:
            return 0

    def find(self, digest: str, size: int) -> Path | None:
        """Find a whole blob, and note that it was used; one of another size is damaged, and removed.

        Its digest is for the reader to verify, in the same pass in which it is used.
        """
        path = self.path(digest)
        try:
            found = path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            raise self.fault(err) from err
        if found != size:
            self.discard(digest)
            return None
        with contextlib.suppress(OSError):  # another user's, in a cache that only he may write
            os.utime(path)
        return path

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
        lock = hold(self._lock(digest), limit=limit, tell=tell, on_stale=_say_nothing, on_wait=on_wait)
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
            for name in ("blobs", "blobs/sha256", "partial", "locks"):
                self._make_directory(self.directory / name)
        except OSError as err:
            raise self.fault(err) from err

    def fault(self, err: OSError) -> HpcmodError:
        """Make an error with a cure from one of the operating system's."""
        what = f"{err.filename or self.directory}: {err.strerror}"
        if err.errno in FULL:
            free = free_bytes(self.directory)
            return NoSpaceError(f"{what}; {free} bytes free", f"Free some space there ({GC}), or {SETTING}.")
        return LackingError(what, f"See whether you may write to {self.directory}, or {SETTING}.")

    def _make_directory(self, path: Path) -> None:
        try:
            path.mkdir()
        except FileExistsError:
            return
        with contextlib.suppress(PermissionError):  # made by another user meanwhile
            path.chmod(stat.S_IMODE(self.directory.stat().st_mode))

    @property
    def shared(self) -> bool:
        """Whether the directory is its group's."""
        mode = self.directory.stat().st_mode
        return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)

    def open_partial(self, digest: str) -> int:
        """Open what there is of a blob for reading and writing, or an empty file; give the file descriptor.

        Only while its lock is held.
        """
        path = self.partial(digest)
        try:
            try:
                return _open(path)
            except PermissionError:  # another user's, in a directory that is ours to write
                path.unlink(missing_ok=True)
            return _open(path)
        except OSError as err:
            raise self.fault(err) from err

    def keep(self, digest: str) -> Path:
        """Give a blob that is whole, verified and on disk for good its name."""
        partial, path = self.partial(digest), self.path(digest)
        mode = self.directory.stat().st_mode
        with contextlib.suppress(PermissionError):  # resumed from another user's, whose mode is right already
            partial.chmod(0o600 | (mode & 0o044) | (mode & 0o020 if self.shared else 0))
        partial.replace(path)
        return path

    def store(self, digest: str, content: bytes) -> None:
        """Put a small blob there that is in memory, and verified, already."""
        with self.lock(digest):
            self._write(digest, content)

    def load_or_bring(self, digest: str, limit: int, bring: Callable[[], bytes]) -> bytes:
        """Give a small blob from the cache; what is not there is brought, verified, by one process alone."""
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
            write_at(descriptor, memoryview(content), 0)
            os.fsync(descriptor)
            self.keep(digest)
        except OSError as err:
            raise self.fault(err) from err
        finally:
            os.close(descriptor)

    def discard(self, digest: str) -> int:
        """Remove a whole blob, damaged or not; readers that have it open go on. Give the bytes that are free."""
        path = self.path(digest)
        try:
            size = path.stat().st_size
            path.unlink()
        except FileNotFoundError:
            return 0
        except OSError as err:
            raise self.fault(err) from err
        return size

    def load(self, digest: str, limit: int) -> bytes | None:
        """Read a small blob and verify it; None if it is not there whole, or is no small one."""
        try:
            if self.path(digest).stat().st_size > limit:
                return None
            content = self.path(digest).read_bytes()
        except OSError:
            return None
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            self.discard(digest)
            return None
        with contextlib.suppress(OSError):
            os.utime(self.path(digest))
        return content

    def entries(self) -> list[Entry]:
        """List the blobs, the longest unused first."""
        found = []
        for directory, whole in ((self.path(_ZERO).parent, True), (self.partial(_ZERO).parent, False)):
            for file in scan(directory):
                with contextlib.suppress(FileNotFoundError):  # removed or renamed meanwhile
                    facts = file.stat()
                    digest = f"sha256:{file.name}"
                    busy = not whole and self._is_busy(digest)
                    found.append(Entry(digest, facts.st_size, facts.st_mtime, whole, busy))
        return sorted(found, key=lambda entry: (entry.used, entry.digest))

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
        if not (self.path(digest).exists() or self.partial(digest).exists()):
            raise NotFoundError(f"{self.directory}: holds no {digest}", "See what it holds: hpcmod cache ls")
        return self._remove(digest)

    def _remove(self, digest: str) -> int:
        """Remove a whole blob at once, for whoever wants it fetches it anew; a partial one only under its lock."""
        try:
            size = self.discard(digest)
            with self.lock(digest, limit=0):
                size += self.size_of_partial(digest)
                self.partial(digest).unlink(missing_ok=True)
                tidy(self._lock(digest))
        except BusyError:
            if not size:
                raise
        except OSError as err:
            raise self.fault(err) from err
        return size

    def gc(
        self, *, now: float, oldest: float | None = None, most: int | None = None, dry_run: bool = False
    ) -> list[Entry]:
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
        return [entry for entry in chosen if dry_run or self._removed(entry)]

    def _removed(self, entry: Entry) -> bool:
        with contextlib.suppress(BusyError, LackingError):  # another process's now, or another user's
            self._remove(entry.digest)
            return True
        return False


_ZERO = "sha256:" + 64 * "0"


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, 0o600 | (path.parent.stat().st_mode & 0o060))
    return descriptor
