"""Put an image's bytes at a temporary name, hashing what arrives there, by the cheapest way the disk has.

The ways, in the order tried: reflink (shares blocks, writes nothing), `copy_file_range` (in the kernel, or on the
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

from hpcmod.errors import ELSEWHERE, BadInputError, LackingError, NoSpaceError, VerificationError
from hpcmod.fs.ownership import others_may_change
from hpcmod.image.integrity import BLOCK, Progress, Ticker, check_sha256, file_sha256, hash_range, parse_sha256
from hpcmod.image.sif import open_sif

_FICLONE = 0x40049409  # linux/fs.h; the fcntl module names it from Python 3.12 on
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the kernel says when a disk is full or a quota used up."""
_CANNOT = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY, errno.EBADF)
_CHUNK = 16 << 20
_LEAD = 64  # chunks the copy may be ahead of the hash, 1 GB: still in memory, so the disk is read once
_MODE = 0o644


@dataclass(frozen=True)
class CopyResult:
    """What a copy did."""

    sha256: str
    """Of the bytes at the temporary name, read there: whoever may write the source could show us others."""
    method: str
    """`reflink`, `hardlink`, `copy_file_range` or `stream`."""
    bytes_written: int
    """0 for a reflink and a hard link."""


def copy_image(
    source: Path | str,
    partial: Path | str,
    *,
    checksum: str | None = None,
    method: str = "copy",
    progress: Progress | None = None,
) -> CopyResult:
    """Put the bytes of an image at a temporary name, on disk for good, and hash them on the way.

    Parameters
    ----------
    source
        The image.
    partial
        Temporary name, in the directory of the final one; what stands there is replaced. Whatever goes wrong, nothing
        is left there.
    checksum
        The sha256 that the source must have; None to only find it out.
    method
        `copy`, `link` for a hard link, or `share` for a hard link where one can be made, else a copy.
    progress
        Called with bytes done and bytes in all, at most ten times a second.

    Raises
    ------
    BadInputError
        If the checksum or the method is none.
    NotFoundError
        If there is no such source.
    VerificationError
        If the sha256 is another one, or the source changed while it was read.
    NoSpaceError
        If the copy does not fit.
    LackingError
        If a hard link is asked for and cannot be made, or the target directory cannot be written.
    """
    if method not in _METHODS:
        raise BadInputError(f"copy method {method!r}: expected one of {', '.join(_METHODS)}")
    source, partial = Path(source).resolve(), Path(partial)
    expected = parse_sha256(checksum) if checksum is not None else None
    try:
        result = _METHODS[method](source, partial, progress)
        check_sha256(source, expected=expected, found=result.sha256)
    except BaseException:  # a half-made image must not outlive even Ctrl-C
        partial.unlink(missing_ok=True)
        raise
    return result


def no_space(directory: Path, *, needed: int) -> NoSpaceError:
    """Make the error for a file of so many bytes that does not fit into a directory."""
    return NoSpaceError(
        f"{directory}: no space: {needed} bytes needed, {free_bytes(directory)} bytes free (a quota may leave less)",
        f"Remove what is no longer needed, ask for more quota, or install elsewhere: {ELSEWHERE}",
    )


def free_bytes(directory: Path) -> int:
    """Tell how many bytes an ordinary user may still write to the file system of a directory, quotas aside."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def _link(source: Path, partial: Path, progress: Progress | None) -> CopyResult:
    with open_sif(source) as reader:
        try:
            partial.unlink(missing_ok=True)
            os.link(source, partial, follow_symlinks=False)
        except OSError as err:
            raise LackingError(
                f"{partial}: cannot be a hard link to {source}: {err.strerror}",
                "A hard link needs one file system and the right to write the source: "
                "use install_mode = 'copy' instead.",
            ) from err
        if not os.path.samestat(os.fstat(reader.fileno()), partial.lstat()):
            raise _changed(source, source.stat().st_size)
    return CopyResult(file_sha256(partial, progress), "hardlink", 0)


def _copy(source: Path, partial: Path, progress: Progress | None) -> CopyResult:
    with open_sif(source) as reader, _disk_faults(source, partial):
        before = os.fstat(reader.fileno())
        partial.unlink(missing_ok=True)
        target = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        try:
            result = _fill(reader.fileno(), target, before.st_size, partial.parent, progress)
            os.fchmod(target, _MODE)  # whatever the umask: the image is for whoever may load the module
            os.fsync(target)
        finally:
            os.close(target)
        after = os.fstat(reader.fileno())
        if not _is_unchanged(before, after, reader.fileno(), result):
            raise _changed(source, after.st_size)
    return result


def _is_unchanged(before: os.stat_result, after: os.stat_result, source: int, result: CopyResult) -> bool:
    """Return whether a source is what was copied; it is read again where more than its contents may have changed."""
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        return False
    if before.st_ctime_ns == after.st_ctime_ns:
        return True
    return _hash_only(source, after.st_size, Ticker(None, 0)) == result.sha256  # a new hard link does that too


def _fill(source: int, target: int, size: int, directory: Path, progress: Progress | None) -> CopyResult:
    """Fill an empty file with the source's bytes; `source` and `target` are open file descriptors."""
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
    """Share the source's blocks, where the file system can."""
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
    """Copy by `copy_file_range` while a thread hashes what was copied; None where this pair of files cannot."""
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
    os.fsync(target)  # here, for the hash of the last chunks runs on meanwhile
    for one in hashing:
        one.result()
    return sha256.hexdigest()


def _copy_chunk(source: int, target: int, start: int, length: int) -> bool:
    """Copy one chunk in the kernel; False if it cannot, which only the first chunk may say."""
    done = 0
    while done < length:
        try:
            count = os.copy_file_range(source, target, length - done, start + done, start + done)
        except OSError as err:
            if err.errno in _CANNOT and start + done == 0:
                return False
            raise
        if count == 0 and start + done == 0:  # some network file systems say 0 where they mean "not supported"
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
    """Write all of a buffer to an open file, from a byte of it on."""
    done = 0
    while done < len(view):
        done += os.pwrite(target, view[done:], start + done)


def _hash_all(sha256: hashlib._Hash, file: int, start: int, length: int, buffer: bytearray) -> None:
    if hash_range(sha256, file, start, length, buffer) < length:
        raise _Shrunk


class _Shrunk(Exception):  # noqa: N818 - a signal inside this room, never seen outside
    """The source ended before the size it had when it was opened."""


@contextmanager
def _disk_faults(source: Path, partial: Path) -> Iterator[None]:
    """Turn what the kernel says about the two files into our errors."""
    try:
        yield
    except _Shrunk as err:
        raise _changed(source, source.stat().st_size) from err
    except OSError as err:
        if err.errno in FULL:
            raise no_space(partial.parent, needed=source.stat().st_size) from err
        raise LackingError(
            f"copying {source} to {partial}: {err.strerror}",
            f"See whether you may write to {partial.parent} and read {source}.",
        ) from err


def _changed(source: Path, size: int) -> VerificationError:
    return VerificationError(
        f"{source}: changed while it was copied: it has {size} bytes now",
        "Wait until whoever writes it is done, then run this again.",
    )


def _share(source: Path, partial: Path, progress: Progress | None) -> CopyResult:
    with open_sif(source) as reader:
        is_ours = not others_may_change(os.fstat(reader.fileno()))
    if not is_ours:  # a link would go on showing what they write
        return _copy(source, partial, progress)
    try:
        return _link(source, partial, progress)
    except LackingError:
        return _copy(source, partial, progress)


_METHODS = {"copy": _copy, "link": _link, "share": _share}
