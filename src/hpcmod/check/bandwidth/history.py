"""Remember measured bandwidths in a small SQLite file, which users of a site can share.

The file may be in a directory that others write too: it is read and replaced as a whole, by hpcmod.fs, and SQLite sees
only a private copy. A file with anything but the one table is refused: triggers and views would run.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from hpcmod.errors import BadInputError, LackingError
from hpcmod.fs.ownership import make_private_directory
from hpcmod.fs.reading import UnusableFileError, read_file
from hpcmod.fs.tree import write_file
from hpcmod.lock import hold
from hpcmod.model.bandwidth.measurement import MOST, BandwidthPoint

_LIMIT = 32 << 20  # bytes
_MOST_ROWS = 50_000  # the oldest are dropped
_PATIENCE = 60.0  # seconds to wait for another process that adds to the file

_KEYS = ("measured", "site", "module", "image", "method")
_VALUES = tuple(field.name for field in fields(BandwidthPoint))
_TABLE = f"CREATE TABLE bandwidth ({', '.join((*_KEYS, *_VALUES))})"
_FILL = f"INSERT INTO bandwidth VALUES ({', '.join('?' * len((*_KEYS, *_VALUES)))})"  # noqa: S608 - only question marks
_SELECT = f"SELECT {', '.join(_VALUES)} FROM bandwidth WHERE site = ? AND method = ? ORDER BY rowid"  # noqa: S608


@dataclass(frozen=True)
class MeasuredWith:
    """Where and how bandwidths were measured: only those of one site and method are compared."""

    site: str
    module: str
    image: str
    """sha256; empty: not known."""
    method: str
    """Library and device, e.g. `torch on GPUs`."""


def read_earlier_points(path: Path, measured: MeasuredWith) -> tuple[BandwidthPoint, ...]:
    """Return what was measured earlier on this site in the same way, oldest first; nothing if there is no file.

    Raises
    ------
    BadInputError
        If it is not such a file.
    """
    if not path.exists():
        return ()
    with _opened(path) as database:
        rows = database.execute(_SELECT, (measured.site, measured.method)).fetchall()
    return tuple(point for row in rows if (point := _parse_row(row)) is not None)


def remember_points(
    path: Path,
    measured: MeasuredWith,
    points: Sequence[BandwidthPoint],
    *,
    time: str,
    private: bool,
    tell: Callable[[str], None],
) -> None:
    """Add points to the file, which is created if it does not exist.

    Parameters
    ----------
    time
        Of the measurement, as in JSON.
    private
        Whether the file is in this user's own state directory, which is created; otherwise its group may write to it
        if it may write to its directory.
    tell
        Called with a line for the user if another process holds the file.

    Raises
    ------
    BadInputError
        If there is another file of that name.
    LackingError
        If there is no space for a temporary copy.
    OSError
        If it cannot be written.
    """
    if private:
        make_private_directory(path.parent)
    lock = path.with_name(f".{path.name}.lock")
    with hold(lock, limit=_PATIENCE, tell=tell, on_stale=lambda: None), _opened(path) as database:
        keys = (time, measured.site, measured.module, measured.image, measured.method)
        database.executemany(_FILL, [(*keys, *astuple(point)) for point in points])
        database.execute("DELETE FROM bandwidth WHERE rowid <= (SELECT max(rowid) FROM bandwidth) - ?", (_MOST_ROWS,))
        database.commit()
        database.execute("VACUUM")
        content = Path(database.execute("PRAGMA database_list").fetchone()[2]).read_bytes()
        write_file(path, content, mode=_mode_of(path))


def _mode_of(path: Path) -> int:
    """Return the mode of the file: that of the present one, or readable and writable by those of its directory."""
    if path.is_file():
        return path.stat().st_mode & 0o666
    return 0o600 | (path.parent.stat().st_mode & 0o066)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a private copy of the file; an empty database with the table if there is no file."""
    with tempfile.TemporaryDirectory(prefix="hpcmod-history-") as directory:
        copy = Path(directory, "history.sqlite")
        with contextlib.suppress(FileNotFoundError), _explaining(path):
            copy.write_bytes(read_file(path, _LIMIT))
        with _explaining(path), contextlib.closing(sqlite3.connect(copy)) as database:
            _check_schema(database)
            yield database


@contextlib.contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as err:  # of the private copy: its directory is full or cannot be written
        raise LackingError(
            f"SQLite cannot use {tempfile.gettempdir()}: {err}", "Set TMPDIR to another directory."
        ) from err
    except (sqlite3.DatabaseError, UnusableFileError, ValueError) as err:
        raise BadInputError(
            f"{path} is not a history of `hpcmod bench`: {err}", "Name another file: --history FILE, or move it away."
        ) from err


def _check_schema(database: sqlite3.Connection) -> None:
    """Check that a database has the one table and nothing that runs; create the table in an empty one."""
    database.execute("PRAGMA journal_mode = MEMORY")  # nobody else sees the copy, and it is lost if this process ends
    database.execute("PRAGMA synchronous = OFF")
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    found = database.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    if not found:
        database.execute(_TABLE)
    elif found != [("table", "bandwidth", _TABLE)]:
        raise ValueError("it has other tables")
    elif database.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
        raise ValueError("it is damaged")


def _parse_row(row: Sequence[object]) -> BandwidthPoint | None:
    """Return a point; None if the row is not one: others may have written it."""
    collective, *numbers = row
    if not isinstance(collective, str) or len(collective) > 100:
        return None
    measured = [float(number) for number in numbers if isinstance(number, (int, float)) and -1 <= number <= 1 << 62]
    if len(measured) != len(numbers) or max(measured[-6:-1]) > MOST:
        return None
    nodes, ranks, size, runs, time, algbw, busbw, low, high, wrong = measured
    return BandwidthPoint(
        *(collective, int(nodes), int(ranks), int(size), int(runs), time, algbw, busbw, low, high, int(wrong))
    )
