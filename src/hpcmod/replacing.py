"""Temporary names: a file gets its final one when it is whole, and what killed processes left is found and cleared."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PARTIAL = ".hpcmod-part"


def partial_path(final: Path) -> Path:
    """Name a temporary file beside the final one, hidden, and known to `clear_partials`."""
    return final.with_name(f".{final.name}{_PARTIAL}-{os.getpid()}")


def resumable_path(final: Path) -> Path:
    """Name a temporary file that the next process goes on from; `clear_partials` leaves it."""
    return final.with_name(f".{final.name}{_PARTIAL}")


def clear_partials(directory: Path, name: str | None = None) -> None:
    """Remove what killed processes left of one name, or of all, in a directory; only the holder of its lock may."""
    for path in directory.glob(f".*{_PARTIAL}-*"):
        if name is None or path.name.startswith(f".{name}{_PARTIAL}-"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


@contextmanager
def replacing(final: Path) -> Iterator[Path]:
    """Give a temporary name; what the block leaves there gets the final name, unless it raises: then it is removed."""
    partial = partial_path(final)
    try:
        yield partial
        partial.replace(final)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replacing_directory(final: Path) -> Iterator[Path]:
    """Give a temporary directory; what the block leaves there becomes the final one whole, unless the block raises.

    Notes
    -----
    Where the file system can exchange two names (most can, Lustre cannot), there is no moment without the directory.
    What a killed process leaves, whole directories, `clear_partials` removes.
    """
    partial = partial_path(final)
    shutil.rmtree(partial, ignore_errors=True)  # of a killed process that had our number
    partial.mkdir(parents=True)
    try:
        yield partial
        if not final.exists() or not _exchange(partial, final):
            _swap(partial, final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where that cannot be."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # glibc 2.28
    at_here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of linux/fs.h
    return rename is not None and rename(at_here, os.fsencode(one), at_here, os.fsencode(other), exchange) == 0


def _swap(partial: Path, final: Path) -> None:
    old = partial.with_name(f"{partial.name}-old")
    if final.exists():
        final.rename(old)
    partial.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def write_file(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Put a text in place whole or not at all."""
    try:
        with replacing(path) as partial:
            with partial.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            partial.chmod(mode)
    except OSError as err:
        err.filename = err.filename or str(path)  # a full disk is met while writing, which knows no name
        raise
