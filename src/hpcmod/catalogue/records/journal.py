"""The journal of a catalogue on disk: one line per change, appended by the holder of the lock."""

from __future__ import annotations

import os
from pathlib import Path

from hpcmod.catalogue.records.store import ask_to_open
from hpcmod.catalogue.values.journal import Change, parse_change, render_change
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.beneath import closing
from hpcmod.core.fs.copying import write_all_at
from hpcmod.core.fs.reading import check_regular
from hpcmod.core.fs.tree import Tree
from hpcmod.core.text.quote import sh_word

JOURNAL = "journal.jsonl"

_LIMIT = 1 << 30  # bytes; a million changes have 300 MB


def read_journal(directory: Path) -> tuple[Change, ...]:
    """Return all changes of a catalogue, the oldest first; an incomplete last line is ignored.

    Raise BadInputError if a line is damaged.
    """
    return tuple(_parse(directory, line, number) for number, line in enumerate(_read_lines(directory), 1))


def find_change(directory: Path, number: int) -> Change:
    """Return a change by its ID; raise NotFoundError if it does not exist."""
    found = next((change for change in read_journal(directory) if change.id == number), None)
    if found is None:
        raise NotFoundError(f"change {number} not found in {directory / JOURNAL}", "See: hpcmod catalogue journal")
    return found


def last_change(directory: Path) -> int:
    """Return the ID of the last change; 0 if there is none. Raise BadInputError if its line is damaged."""
    lines = _read_lines(directory)
    return _parse(directory, lines[-1], len(lines)).id if lines else 0


def append_change(directory: Path, change: Change, *, mode: int) -> None:
    """Append a line durably or not at all, after cutting off the incomplete line of a killed process.

    `mode`: Mode of the file if it is created: other admins must be able to append.
    """
    path = directory / JOURNAL
    with closing(Tree(directory).open(JOURNAL, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, mode)) as descriptor:
        status = os.fstat(descriptor)
        check_regular(status, path, limit=_LIMIT)  # not a FIFO of another user
        end = os.pread(descriptor, status.st_size, 0).rfind(b"\n") + 1
        os.ftruncate(descriptor, end)
        try:
            write_all_at(descriptor, memoryview(render_change(change).encode()), end)
            os.fsync(descriptor)
        except OSError as err:
            os.ftruncate(descriptor, end)
            err.filename = err.filename or str(path)
            raise


def _parse(directory: Path, line: bytes, number: int) -> Change:
    path = directory / JOURNAL
    try:
        return parse_change(line, f"{path}:{number}")
    except BadInputError as err:
        cure = f"Restore the file from a backup; or remove the line, and with it what it tells: sed -i {number}d"
        raise BadInputError(err.message, err.cure or f"{cure} {sh_word(str(path))}") from err


def _read_lines(directory: Path) -> list[bytes]:
    """Return the complete lines, without their ends."""
    try:
        return Tree(directory).read(JOURNAL, _LIMIT).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except PermissionError as err:
        path = directory / JOURNAL
        raise BadInputError(f"{path}: {err.strerror}", ask_to_open(path)) from err
