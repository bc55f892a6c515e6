"""Read regular files up to a limit: a FIFO, a device or a huge sparse file is an error at once, not a hang."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from hpcmod.core.errors import BadInputError, NotFoundError

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_CHUNK = 1 << 16


class UnusableFileError(OSError):
    """A file is not a regular file, or is larger than allowed."""


def read_file(path: Path | str, limit: int) -> bytes:
    """Return the content of a regular file; a link to one is followed, because the user decides what is read.

    `limit`: Largest allowed size in bytes.

    Raises UnusableFileError if it is not a regular file, or is larger; OSError if it cannot be opened or read.
    """
    with open_regular(path) as file:
        return read_whole(file, path, limit)


def read_text(path: Path | str, limit: int, *, errors: str = "strict") -> str:
    """Return the UTF-8 text of a regular file, as `read_file` does."""
    return read_file(path, limit).decode("utf-8", errors=errors)


def read_start(path: Path | str, most: int) -> str:
    """Return the first bytes of a regular file as text; empty if it cannot be read. `most`: number of bytes."""
    try:
        with open_regular(path) as file:
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""


def open_regular(path: Path | str, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading; a link to one is followed unless `follow` is False.

    Raises UnusableFileError if it is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    return as_regular_file(os.open(path, flags), path)


def open_input(path: Path) -> BinaryIO:
    """Open a file that the user names for reading.

    Raises NotFoundError if there is no such file, and BadInputError if it is not a regular file, or you may not read
    it.
    """
    try:
        return open_regular(path)
    except FileNotFoundError as err:
        raise NotFoundError(f"{path}: no such file", "Check the path.") from err
    except UnusableFileError as err:
        sandbox = "If it is a sandbox: apptainer build NEW.sif DIRECTORY." if path.is_dir() else ""
        raise BadInputError(f"{path}: {err.strerror}", sandbox or "Give the path of a file.") from err
    except OSError as err:
        raise BadInputError(f"{path}: cannot be read: {err.strerror}", f"Check its permissions: ls -l {path}") from err


def as_regular_file(descriptor: int, path: Path | str) -> BinaryIO:
    """Return a file object for a descriptor opened for reading; close it if it is not that of a regular file."""
    try:
        check_regular(os.fstat(descriptor), path)
        return open(path, "rb", opener=lambda *_: descriptor)  # the file has its name for messages
    except BaseException:
        os.close(descriptor)
        raise


def check_regular(status: os.stat_result, path: Path | str, *, limit: int | None = None) -> None:
    """Raise UnusableFileError if a file is not a regular file of at most `limit` bytes."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "something else")
        code = errno.EISDIR if kind == stat.S_IFDIR else errno.EINVAL
        raise UnusableFileError(code, f"is {what}, expected a regular file", str(path))
    if limit is not None and status.st_size > limit:
        raise _too_large(status.st_size, path, limit)


def _too_large(size: int, path: Path | str, limit: int) -> UnusableFileError:
    return UnusableFileError(errno.EFBIG, f"has {size} bytes, expected at most {limit}", str(path))


def read_whole(file: BinaryIO, path: Path | str, limit: int) -> bytes:
    """Return the complete content of an open file of at most `limit` bytes; `path` is its name in the error."""
    size = os.fstat(file.fileno()).st_size
    found = file.read(size + 1) if size <= limit else b""
    while len(found) > size and len(found) <= limit:  # it is growing, or is in /proc, where sizes are 0
        chunk = file.read(_CHUNK)
        if not chunk:
            return found
        found += chunk
    if size > limit or len(found) > limit:
        raise _too_large(max(size, len(found)), path, limit)
    return found
