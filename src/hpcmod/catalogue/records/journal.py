"""The journal of a catalogue on disk: one line per change, appended by the holder of the lock."""

from __future__ import annotations

import os
from pathlib import Path

from hpcmod.catalogue.values.journal import Change, parse_change, render_change
from hpcmod.core.errors import NotFoundError
from hpcmod.core.fs.reading import check_regular
from hpcmod.core.fs.tree import Tree

JOURNAL = "journal.jsonl"


def read_journal(directory: Path) -> tuple[Change, ...]:
    """Return all changes of a catalogue, the oldest first; an incomplete last line is ignored.

    Raises
    ------
    BadInputError
        If a line is damaged.
    """
    path = directory / JOURNAL
    try:
        whole = Tree(directory).read(JOURNAL, _LIMIT).rpartition(b"\n")[0]
    except FileNotFoundError:
        return ()
    lines = enumerate(whole.split(b"\n"), 1) if whole else ()
    return tuple(parse_change(line, f"{path}:{number}") for number, line in lines)


def find_change(directory: Path, number: int) -> Change:
    """Return a change by its ID.

    Raises
    ------
    NotFoundError
        If it does not exist.
    """
    found = next((change for change in read_journal(directory) if change.id == number), None)
    if found is None:
        raise NotFoundError(f"change {number} not found in {directory / JOURNAL}", "See: hpcmod catalogue journal")
    return found


def append_change(directory: Path, change: Change, *, mode: int) -> None:
    """Append a line durably or not at all, after cutting off the incomplete line of a killed process.

    Parameters
    ----------
    mode
        Mode of the file if it is created: other admins must be able to append.
    """
    path = directory / JOURNAL
    descriptor = _open(directory, os.O_RDWR | os.O_CREAT, mode)
    try:
        end = _whole_lines(descriptor)
        os.ftruncate(descriptor, end)
        try:
            _write_all(descriptor, render_change(change).encode(), end)
            os.fsync(descriptor)
        except OSError as err:
            os.ftruncate(descriptor, end)
            err.filename = err.filename or str(path)
            raise
    finally:
        os.close(descriptor)


def last_change(directory: Path) -> int:
    """Return the ID of the last change; 0 if there is none.

    Raises
    ------
    BadInputError
        If its line is damaged.
    """
    path = directory / JOURNAL
    try:
        descriptor = _open(directory, os.O_RDONLY)
    except FileNotFoundError:
        return 0
    try:
        end = _whole_lines(descriptor)
        line = os.pread(descriptor, end - 1 - (start := _line_start(descriptor, end)), start) if end else b""
    finally:
        os.close(descriptor)
    return parse_change(line, str(path)).id if line else 0


_STEP = 1 << 16
_LIMIT = 1 << 30  # bytes; a million changes have 300 MB


def _open(directory: Path, flags: int, mode: int = 0) -> int:
    """Open the journal; refuse anything but a regular file of valid size, for example a FIFO from another user."""
    descriptor = Tree(directory).open(JOURNAL, flags | os.O_NONBLOCK, mode)
    try:
        check_regular(os.fstat(descriptor), directory / JOURNAL, limit=_LIMIT)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _whole_lines(descriptor: int) -> int:
    """Return the number of bytes up to the last line end."""
    return _line_start(descriptor, os.fstat(descriptor).st_size + 1)


def _line_start(descriptor: int, end: int) -> int:
    """Return the start of the line that ends with the last byte before `end`."""
    place = end - 1
    while place > 0:
        start = max(0, place - _STEP)
        found = os.pread(descriptor, place - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        place = start
    return 0


def _write_all(descriptor: int, line: bytes, place: int) -> None:
    while line:
        written = os.pwrite(descriptor, line, place)
        line, place = line[written:], place + written
