"""Temporary names: a file gets its final one when it is whole, and what killed processes left is found and cleared."""

from __future__ import annotations

import os
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
    """Remove what killed processes left of one file, or of all, in a directory; only the holder of its lock may."""
    for path in directory.glob(f".*{_PARTIAL}-*"):
        if name is None or path.name.startswith(f".{name}{_PARTIAL}-"):
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
