"""The blob cache: each blob under its digest, fetched by one process at a time, optionally shared by a group.

    DIRECTORY/blobs/sha256/<64 digits>     complete and verified
    DIRECTORY/partial/<64 digits>          left by an interrupted fetch; the digest is verified at the end
    DIRECTORY/locks/<64 digits>            lock of the process that is fetching it

A group-writable directory with the set-group-id bit (`chmod 2770`) is shared: the group may read, use and remove its
files, whatever the umask of the user who wrote them. Links in the cache are never followed, and where another user may
write, blobs are verified again while they are read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hpcmod.core.errors import FULL, BadInputError, BusyError, HpcmodError, LackingError, NoSpaceError
from hpcmod.core.fs.beneath import closing
from hpcmod.core.fs.copying import free_bytes, write_all_at
from hpcmod.core.fs.ownership import others_may_change
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree
from hpcmod.core.lock import clear_dead, hold, is_held

SETTING = "move the cache with HPCMOD_CACHE=DIRECTORY"
"""How to move the cache to another disk, as the end of a sentence."""
GC = "hpcmod cache gc"

_NAME = re.compile(r"[0-9a-f]{64}")
_DIRECTORIES = ("blobs", "blobs/sha256", "partial", "locks")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
_UNUSABLE = (errno.ELOOP, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENXIO)
"""Errors of opening a link, a directory, another user's file, or a socket at the path of a partial blob."""

_ignore: Callable[..., None] = lambda *_: None  # noqa: E731 - a default for several callbacks


@dataclass(frozen=True)
class CacheEntry:
    """A blob in the cache."""

    digest: str
    size: int
    """Bytes on disk."""
    used: float
    """When it was last fetched or read, in Unix seconds."""
    whole: bool
    """False for a partial blob left by an interrupted fetch."""
    busy: bool
    """Whether a process is fetching it now."""


class Cache:
    """Blobs on disk by digest; the module's docstring describes the directories."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self.tree = Tree(self.directory)

    def path(self, digest: str) -> Path:
        """Return the path of a complete blob, whether it exists or not."""
        return self.directory / "blobs" / "sha256" / _digits_of(digest)

    def partial(self, digest: str) -> Path:
        """Return the path of a partial blob, whether it exists or not."""
        return self.directory / "partial" / _digits_of(digest)

    def size_of_partial(self, digest: str) -> int:
        """Return how many bytes of a blob an interrupted fetch has left."""
        try:
            return self.tree.status(self.partial(digest)).st_size
        except OSError:
            return 0

    def find(self, digest: str, size: int) -> Path | None:
        """Find a complete blob and update its time of last use; a blob of another size is removed as damaged.

        The caller verifies the digest while it reads the blob.
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
        """Open a complete blob; the caller verifies its digest.

        Raises FileNotFoundError if it is no longer in the cache, and LackingError if it cannot be read.
        """
        try:
            return self.tree.open_file(self.path(digest))
        except FileNotFoundError:
            raise
        except OSError as err:
            raise self.fault(err) from err

    def _note_use(self, path: Path) -> None:
        # it may be owned by another user
        with contextlib.suppress(OSError), closing(self.tree.open(path, os.O_RDONLY | os.O_NONBLOCK)) as file:
            os.utime(file)

    @contextlib.contextmanager
    def lock(
        self,
        digest: str,
        *,
        limit: float | None = None,
        tell: Callable[[str], None] = _ignore,
        on_wait: Callable[[], None] = _ignore,
    ) -> Iterator[bool]:
        """Hold the lock for fetching or removing a blob; see `hpcmod.core.lock.hold`."""
        self.prepare()
        lock = hold(self._lock(digest), limit=limit, tell=tell, on_wait=on_wait, below=self.directory)
        with contextlib.ExitStack() as held:
            try:
                waited = held.enter_context(lock)
            except OSError as err:
                raise self.fault(err) from err
            yield waited

    def prepare(self) -> None:
        """Create the directories, for the user alone or for the group of a shared directory.

        Raises LackingError if they cannot be created or written, and NoSpaceError if the disk is full.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            mode = stat.S_IMODE(self.directory.stat().st_mode)
            for name in _DIRECTORIES:
                self.tree.make_directory(name, mode)
        except OSError as err:
            raise self.fault(err) from err

    def fault(self, err: OSError) -> HpcmodError:
        """Convert an OSError into an HpcmodError with a cure."""
        what = f"{err.filename or self.directory}: {err.strerror}"
        if err.errno in FULL:
            free = free_bytes(self.directory)
            return NoSpaceError(f"{what}; {free} bytes free", f"Free some space there ({GC}), or {SETTING}.")
        return LackingError(what, f"Check that you can write to {self.directory}, or {SETTING}.")

    @property
    def shared(self) -> bool:
        """Whether the directory is shared with its group."""
        mode = self.directory.stat().st_mode
        return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)

    def others_may_change(self, file: int) -> bool:
        """Return whether another user may change an open file of the cache or the content of its directories."""
        return others_may_change(os.fstat(file)) or any(
            others_may_change(status) for status in (self.directory.stat(), *map(self.tree.status, _DIRECTORIES))
        )

    def open_partial(self, digest: str) -> int:
        """Open a partial blob for reading and writing, created if missing; return the file descriptor.

        The caller must hold the blob's lock.
        """
        path = self.partial(digest)
        try:
            found = self._open_usable(path)
            if found is None:
                self.tree.remove(path)
                found = self.tree.open(path, _NEW, 0o600)
            with contextlib.suppress(PermissionError):  # owned by another user
                os.fchmod(found, 0o600 | (self.directory.stat().st_mode & 0o060 if self.shared else 0))
            return found
        except OSError as err:
            raise self.fault(err) from err

    def _open_usable(self, path: Path) -> int | None:
        """Open or create a partial blob; None if the path is taken by something else."""
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
        """Return whether a file can be a partial blob, rather than another file of this user that was linked here.

        A file with a second hard link belongs elsewhere. In a shared cache, a file with content that the group cannot
        read was never a partial blob: making it readable for the group would expose its content.
        """
        closed = self.shared and status.st_uid == os.geteuid() and not status.st_mode & stat.S_IRGRP
        return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and not (closed and status.st_size)

    def keep(self, digest: str, file: int) -> Path:
        """Move a complete, verified and synced blob to its final path; `file` is the open partial blob."""
        partial, path = self.partial(digest), self.path(digest)
        mode = self.directory.stat().st_mode
        with contextlib.suppress(PermissionError):  # resumed from another user's file, whose mode is already right
            os.fchmod(file, 0o600 | (mode & 0o044) | (mode & 0o020 if self.shared else 0))
        with contextlib.suppress(IsADirectoryError):
            self.tree.rename(partial, path)
            return path
        self.tree.remove(path)
        self.tree.rename(partial, path)
        return path

    def discard_partial(self, digest: str) -> None:
        """Remove a partial blob; the caller must hold its lock."""
        self.tree.remove(self.partial(digest))

    def store(self, digest: str, content: bytes) -> None:
        """Store a small blob that is in memory and already verified."""
        with self.lock(digest):
            self._write(digest, content)

    def load_or_fetch(self, digest: str, limit: int, fetch: Callable[[], bytes]) -> bytes:
        """Return a small blob from the cache; if missing, one process calls `fetch`, which verifies it."""
        content = self.load(digest, limit)
        if content is None:
            with self.lock(digest):
                content = self.load(digest, limit)
                if content is None:
                    content = fetch()
                    self._write(digest, content)
        return content

    def _write(self, digest: str, content: bytes) -> None:
        with closing(self.open_partial(digest)) as descriptor:
            try:
                os.ftruncate(descriptor, 0)
                write_all_at(descriptor, memoryview(content), 0)
                os.fsync(descriptor)
                self.keep(digest, descriptor)
            except OSError as err:
                raise self.fault(err) from err

    def discard(self, digest: str) -> int:
        """Remove a complete blob, damaged or not; open readers are not affected. Return the bytes freed."""
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
        """Read a small blob and verify it; None if it is missing, incomplete or larger than `limit`."""
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
        """List the blobs, least recently used first."""
        found = []
        for directory, whole in (("blobs/sha256", True), ("partial", False)):
            for name, status in self._list(directory):
                digest = f"sha256:{name}"
                busy = not whole and is_held(self._lock(digest))
                found.append(CacheEntry(digest, status.st_size, status.st_mtime, whole, busy))
        return sorted(found, key=lambda entry: (entry.used, entry.digest))

    def _list(self, directory: str) -> list[tuple[str, os.stat_result]]:
        """List the files in a directory that are named like blobs."""
        try:
            return [entry for entry in self.tree.entries(directory) if _NAME.fullmatch(entry[0])]
        except OSError as err:
            raise self.fault(err) from err

    def _lock(self, digest: str) -> Path:
        return self.directory / "locks" / _digits_of(digest)

    def remove(self, digest: str) -> int:
        """Remove a complete blob at once, because it can be fetched again; a partial blob only under its lock.

        Returns
        -------
        int
            Bytes freed.

        Raises BusyError if the blob is being fetched.
        """
        try:
            size = self.discard(digest)
            with self.lock(digest, limit=0):
                size += self.size_of_partial(digest)
                self.discard_partial(digest)
        except BusyError:
            if not size:
                raise
        except OSError as err:
            raise self.fault(err) from err
        return size

    def gc(
        self, *, now: float, oldest: float | None = None, most: int | None = None, dry_run: bool = False
    ) -> list[CacheEntry]:
        """Remove blobs that are old or too many; skip busy ones.

        Blobs unused for more than `oldest` seconds go, then the least recently used until at most `most` bytes are
        left. Returns the blobs that were removed, or would be.
        """
        chosen = _choose(self.entries(), now=now, oldest=oldest, most=most)
        if not dry_run:
            self._clear_dead_locks()
        return [entry for entry in chosen if dry_run or self._removed(entry)]

    def _clear_dead_locks(self) -> None:
        """Remove the locks and the temporary files of processes that were killed."""
        for directory in _DIRECTORIES[1:]:
            with contextlib.suppress(OSError):
                clear_leftovers(self.directory / directory)
        for name, _ in self._list("locks"):
            with contextlib.suppress(HpcmodError, OSError):  # not a lock, or owned by another user
                clear_dead(self._lock(f"sha256:{name}"))

    def _removed(self, entry: CacheEntry) -> bool:
        try:
            self.remove(entry.digest)
        except BusyError:
            return False
        except LackingError as err:
            if isinstance(err.__cause__, PermissionError):  # owned by another user
                return False
            raise
        return True


def _choose(entries: list[CacheEntry], *, now: float, oldest: float | None, most: int | None) -> list[CacheEntry]:
    """Choose the entries to remove; `entries` is sorted with the least recently used first."""
    total = sum(entry.size for entry in entries)
    chosen = []
    for entry in entries:
        too_old = oldest is not None and now - entry.used > oldest
        if not entry.busy and (too_old or (most is not None and total > most)):
            chosen.append(entry)
            total -= entry.size
    return chosen


def _digits_of(digest: str) -> str:
    """Return the file name of a blob: the hex digits of its digest, which must be valid."""
    kind, _, digits = digest.partition(":")
    if kind != "sha256" or not _NAME.fullmatch(digits):
        raise BadInputError(
            f"{digest!r} is not a valid digest", "A digest is sha256: followed by 64 lower-case hex digits."
        )
    return digits
