"""Read the logs of an earlier run from files and directories, line by line and up to a limit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from hpcmod.errors import NotFoundError
from hpcmod.fs.reading import open_regular
from hpcmod.model.logs.reading import LONGEST, Reading, read_log

MOST_FILES = 10_000
MOST_BYTES = 1 << 30
"""Read of all files together; a run of many ranks at NCCL_DEBUG=INFO writes a few megabytes."""


def read_logs(paths: Sequence[Path]) -> tuple[Reading, list[str]]:
    """Read logs, and return what they say and notes about what was not read.

    Raises
    ------
    NotFoundError
        If a path does not exist or cannot be read.
    """
    reading, notes, left = Reading(), [], MOST_BYTES
    files = [file for path in paths for file in _files_of(path)]
    if len(files) > MOST_FILES:
        notes.append(f"only the first {MOST_FILES} of {len(files)} files were read")
    for file in files[:MOST_FILES]:
        try:
            with open_regular(file) as opened:
                size = os.fstat(opened.fileno()).st_size
                read_log(_lines(opened, left), file=str(file), into=reading)
        except OSError as err:
            raise NotFoundError(f"{file}: {err.strerror}", "Give files or directories with logs.") from err
        left -= size
        if left <= 0:
            notes.append(f"only the first {MOST_BYTES >> 20} MiB were read, up to {file}")
            break
    return reading, notes


def _files_of(path: Path) -> list[Path]:
    """Return the files of a directory, in order; any other path is returned as it is."""
    try:
        return sorted(entry for entry in path.iterdir() if entry.is_file())
    except NotADirectoryError:
        return [path]
    except OSError as err:
        raise NotFoundError(f"{path}: {err.strerror}", "Give files or directories with logs.") from err


def _lines(file: BinaryIO, limit: int) -> Iterator[str]:
    """Yield the lines of a file, each cut to what is read of a line."""
    while limit > 0:
        line = rest = file.readline(LONGEST)
        if not line:
            return
        while rest and not rest.endswith(b"\n") and limit > 0:
            limit -= len(rest)
            rest = file.readline(1 << 16)
        limit -= len(rest)
        yield line.decode("utf-8", "replace")
