"""Copy a file to a temporary path by the cheapest way the disk offers, and hash the copy.

The methods, in the order tried: reflink (shares blocks, writes nothing), `copy_file_range` (in the kernel, or on the
server of NFS 4.2) with a thread that reads back what was copied, and a plain loop. A hard link only if you ask for it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.errors import FULL, BadInputError, LackingError, NoSpaceError, VerificationError
from hpcmod.core.fs.beneath import closing
from hpcmod.core.fs.checksums import BLOCK, check_sha256, file_sha256, hash_range, parse_sha256
from hpcmod.core.fs.ownership import others_may_change
from hpcmod.core.fs.reading import open_input
from hpcmod.core.progress import Progress, Ticker

_FICLONE = 0x40049409  # linux/fs.h; in the fcntl module since Python 3.12
_CANNOT = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY, errno.EBADF)
_CHUNK = 16 << 20
_LEAD = 64  # chunks the copy may be ahead of the hash, 1 GB: still in memory, so the disk is read once
_MODE = 0o644


@dataclass(frozen=True)
class CopyResult:
    """The result of a copy."""

    sha256: str
    """Checksum of the bytes read back from the temporary path, because the source may change meanwhile."""
    method: str
    """`reflink`, `hardlink`, `copy_file_range` or `stream`."""
    bytes_written: int
    """0 for a reflink and a hard link."""


def copy_file(
    source: Path | str,
    partial: Path | str,
    *,
    checksum: str | None = None,
    method: str = "copy",
    progress: Progress | None = None,
) -> CopyResult:
    """Copy an image or another file to a temporary path, synced to disk, and hash it.

    The temporary path must be in the directory of the final path; an existing file is replaced, and after an error no
    file is left. The method is `copy`, `link` for a hard link, or `share` for a hard link if possible, else a copy.
    `progress` is called with the bytes done and the total, at most ten times a second.

    Raises BadInputError if the checksum or the method is invalid; NotFoundError if the source is missing;
    VerificationError if the sha256 differs, or the source changed while it was read; NoSpaceError if the copy does not
    fit; LackingError if the requested hard link cannot be made, or the target directory cannot be written.
    """
    if method not in _METHODS:
        raise BadInputError(f"copy method {method!r}: expected one of {', '.join(_METHODS)}")
    source, partial = Path(source).resolve(), Path(partial)
    expected = parse_sha256(checksum) if checksum is not None else None
    try:
        result = _METHODS[method](source, partial, progress)
        check_sha256(source, expected=expected, found=result.sha256)
    except BaseException:  # remove an incomplete image even after Ctrl-C
        partial.unlink(missing_ok=True)
        raise
    return result


def no_space(directory: Path, *, needed: int) -> NoSpaceError:
    """Return the error for a file of `needed` bytes that does not fit into a directory."""
    return NoSpaceError(
        f"{directory}: no space: {needed} bytes needed, {free_bytes(directory)} bytes free (a quota may leave less)",
        "Remove files you no longer need, ask for more quota, or choose another directory.",
    )


def free_bytes(directory: Path) -> int:
    """Return the free bytes of a directory's file system for an ordinary user, ignoring quotas."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def _link(source: Path, partial: Path, progress: Progress | None) -> CopyResult:
    with open_input(source) as reader:
        try:
            partial.unlink(missing_ok=True)
            os.link(source, partial, follow_symlinks=False)
        except OSError as err:
            raise LackingError(
                f"{partial}: cannot be a hard link to {source}: {err.strerror}",
                "A hard link needs write access to the source, on the same file system: "
                "use install_mode = 'copy' instead.",
            ) from err
        if not os.path.samestat(os.fstat(reader.fileno()), partial.lstat()):
            raise _changed(source, source.stat().st_size)
    return CopyResult(file_sha256(partial, progress), "hardlink", 0)


def _copy(source: Path, partial: Path, progress: Progress | None) -> CopyResult:
    with open_input(source) as reader, _disk_faults(source, partial):
        before = os.fstat(reader.fileno())
        partial.unlink(missing_ok=True)
        with closing(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, _MODE)) as target:
            result = _fill(reader.fileno(), target, before.st_size, partial.parent, progress)
            os.fchmod(target, _MODE)  # whatever the umask: readable for all users of the module
            os.fsync(target)
        after = os.fstat(reader.fileno())
        if not _is_unchanged(before, after, reader.fileno(), result):
            raise _changed(source, after.st_size)
    return result


def _is_unchanged(before: os.stat_result, after: os.stat_result, source: int, result: CopyResult) -> bool:
    """Return whether the source still equals the copy; if only ctime has changed, hash the source again."""
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        return False
    if before.st_ctime_ns == after.st_ctime_ns:
        return True
    return _hash_only(source, after.st_size, Ticker(None, 0)) == result.sha256  # a new hard link changes ctime too


def _fill(source: int, target: int, size: int, directory: Path, progress: Progress | None) -> CopyResult:
    """Copy the source into an empty file; `source` and `target` are open file descriptors."""
    ticker = Ticker(progress, size)
    cloned = _clone(source, target)
    if not cloned and size > free_bytes(directory):
        raise OSError(errno.ENOSPC, "No space")
    with ThreadPoolExecutor(1) as pool:
        if cloned:
            return CopyResult(_hash_only(target, size, ticker), "reflink", 0)
        digest = _copy_in_kernel(source, target, size, ticker, pool)
        if digest is not None:
            return CopyResult(digest, "copy_file_range", size)
        return CopyResult(_stream(source, target, size, ticker, pool), "stream", size)


def _clone(source: int, target: int) -> bool:
    """Share the source's blocks; return False if the file system cannot."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as err:
        if err.errno in FULL:
            raise
        return False
    return True


def _hash_only(file: int, size: int, ticker: Ticker) -> str:
    sha256 = hashlib.sha256()
    buffer = bytearray(BLOCK)
    for start in range(0, size, BLOCK):
        _hash_all(sha256, file, start, min(BLOCK, size - start), buffer)
        ticker.tick(start + BLOCK if start + BLOCK < size else size)
    return sha256.hexdigest()


def _copy_in_kernel(source: int, target: int, size: int, ticker: Ticker, pool: ThreadPoolExecutor) -> str | None:
    """Copy with `copy_file_range` while a thread hashes the copy; None if unsupported for these files."""
    sha256 = hashlib.sha256()
    buffer = bytearray(BLOCK)
    hashing: deque[Future[None]] = deque()
    done = 0
    while done < size:
        length = min(_CHUNK, size - done)
        if not _copy_chunk(source, target, done, length):
            return None
        hashing.append(pool.submit(_hash_all, sha256, target, done, length, buffer))
        done += length
        if len(hashing) > _LEAD:
            hashing.popleft().result()
        ticker.tick(done)
    os.fsync(target)  # while the thread hashes the last chunks
    for future in hashing:
        future.result()
    return sha256.hexdigest()


def _copy_chunk(source: int, target: int, start: int, length: int) -> bool:
    """Copy one chunk in the kernel; return False if unsupported, which only the first chunk can find."""
    done = 0
    while done < length:
        try:
            count = os.copy_file_range(source, target, length - done, start + done, start + done)
        except OSError as err:
            if err.errno in _CANNOT and start + done == 0:
                return False
            raise
        if count == 0 and start + done == 0:  # some network file systems return 0 for "not supported"
            return False
        if count == 0:
            raise _Shrunk
        done += count
    return True


def _stream(source: int, target: int, size: int, ticker: Ticker, pool: ThreadPoolExecutor) -> str:
    """Read each block once; hash it in a thread while it is written."""
    sha256 = hashlib.sha256()
    view = memoryview(bytearray(BLOCK))
    done = 0
    while done < size:
        count = os.preadv(source, [view[: size - done]], done)
        if count == 0:
            raise _Shrunk
        hashing = pool.submit(sha256.update, view[:count])
        write_all_at(target, view[:count], done)
        hashing.result()
        done += count
        ticker.tick(done)
    return sha256.hexdigest()


def write_all_at(target: int, view: memoryview, start: int) -> None:
    """Write all of a buffer to an open file, starting at the given offset."""
    done = 0
    while done < len(view):
        done += os.pwrite(target, view[done:], start + done)


def _hash_all(sha256: hashlib._Hash, file: int, start: int, length: int, buffer: bytearray) -> None:
    if hash_range(sha256, file, start, length, buffer) < length:
        raise _Shrunk


class _Shrunk(Exception):  # noqa: N818 - a signal inside this module
    """The source became shorter while it was copied."""


@contextmanager
def _disk_faults(source: Path, partial: Path) -> Iterator[None]:
    """Convert OSErrors on the two files into HpcmodErrors."""
    try:
        yield
    except _Shrunk as err:
        raise _changed(source, source.stat().st_size) from err
    except OSError as err:
        if err.errno in FULL:
            raise no_space(partial.parent, needed=source.stat().st_size) from err
        raise LackingError(
            f"copying {source} to {partial}: {err.strerror}",
            f"Check that you can write to {partial.parent} and read {source}.",
        ) from err


def _changed(source: Path, size: int) -> VerificationError:
    return VerificationError(
        f"{source}: changed while it was copied: it has {size} bytes now",
        "Wait until it is no longer being written, then run this again.",
    )


def _share(source: Path, partial: Path, progress: Progress | None) -> CopyResult:
    with open_input(source) as reader:
        is_ours = not others_may_change(os.fstat(reader.fileno()))
    if not is_ours:  # a hard link would show their later changes
        return _copy(source, partial, progress)
    try:
        return _link(source, partial, progress)
    except LackingError:
        return _copy(source, partial, progress)


_METHODS = {"copy": _copy, "link": _link, "share": _share}
