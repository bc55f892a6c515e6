"""Read the logs of a run and the dumps of its flight recorder: bounded, and only regular files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.reading import open_regular, read_file
from hpcmod.core.values.strict_json import load_json
from hpcmod.jobs.values.facts import JobFacts
from hpcmod.runs.running.plain_pickle import parse_plain_pickle
from hpcmod.runs.values.endings.events import Log
from hpcmod.runs.values.endings.flight import LARGEST_DUMP, Dump, is_dump, parse_dump, rank_of_file

_HEAD, _TAIL = 4 << 20, 12 << 20  # bytes of a log that are read: the first failure is at its beginning or its end
_MOST_FILES = 2048
_MOST_BYTES = 1 << 30  # of all files
_BEGINNING = 4096
_RANK = re.compile(r"rank[-_]?(\d{1,7})(?!.*rank[-_]?\d)")
DEBUG = "hpcmod-debug-{job}"
"""Directory of the logs that HPCMOD_DEBUG has the ranks write, beside the output of the job."""


@dataclass(frozen=True)
class RunFiles:
    """What was read."""

    logs: tuple[Log, ...]
    dumps: tuple[Dump, ...]
    unknown: tuple[str, ...]
    """What could not be read, and what was left out, as sentences."""


def read_given(paths: Iterable[Path]) -> RunFiles:
    """Read files, and all files of directories, as logs or dumps.

    Raises NotFoundError if a path does not exist.
    """
    logs: list[Log] = []
    dumps: list[Dump] = []
    unknown: list[str] = []
    listed = list(_list_files(paths, unknown))
    left = _MOST_BYTES
    for path in listed[:_MOST_FILES]:
        try:
            with open_regular(path) as file:
                beginning = file.read(_BEGINNING)
            if is_dump(beginning):
                data = read_file(path, LARGEST_DUMP)
                left -= len(data)
                dumps.append(read_dump(data, path))
            elif b"\0" in beginning and "\ufffd" in beginning.decode(errors="replace"):
                unknown.append(f"{path} was not read: it is not a text file")
            elif left > 0:
                log, told = _read_log(path)
                left -= len(log.text)
                logs.append(log)
                unknown += told
            else:
                unknown.append(f"{path} was not read: more than {_MOST_BYTES >> 20} MB in total")
        except BadInputError as err:
            unknown.append(err.message)
        except OSError as err:
            unknown.append(f"{path} was not read: {err.strerror}")
    if len(listed) > _MOST_FILES:
        unknown.append(f"{len(listed) - _MOST_FILES} files were not read: more than {_MOST_FILES}")
    return RunFiles(tuple(logs), tuple(dumps), tuple(unknown))


def read_dump(data: bytes, path: Path) -> Dump:
    """Return a dump of the flight recorder from the content of its file.

    Raises BadInputError if it is not one.
    """
    where = str(path)
    values = load_json(data, where, limit=LARGEST_DUMP) if data[:1] == b"{" else parse_plain_pickle(data, where)
    return parse_dump(values, rank_of_file(path.name), where)


def _list_files(paths: Iterable[Path], unknown: list[str]) -> Iterator[Path]:
    """Yield files; those of a directory in the order of their names."""
    for path in paths:
        if path.is_dir():
            try:
                yield from sorted(
                    Path(entry.path) for entry in os.scandir(path) if entry.is_file(follow_symlinks=False)
                )
            except OSError as err:
                unknown.append(f"{path} was not read: {err.strerror}")
        elif path.exists() or path.is_symlink():
            yield path
        else:
            raise NotFoundError(f"{path}: no such file", "Give a job ID, or files with the output of a run.")


def _read_log(path: Path) -> tuple[Log, list[str]]:
    """Return the text of a log, of a very long one its beginning and end, and what was left out."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(_HEAD)
        rest, told = b"", []
        if size > _HEAD + _TAIL:
            file.seek(size - _TAIL)
            left_out = (size - _HEAD - _TAIL) >> 20
            told = [f"{path}: {left_out} MB in the middle were not read, and later line numbers count without them"]
        rest = file.read(_TAIL)
    text = (head + rest).decode("utf-8", errors="replace")
    match = _RANK.search(path.name)
    return Log(str(path), text, (int(match[1]),) if match else ()), told


def find_logs(facts: JobFacts) -> tuple[list[Path], list[str]]:
    """Return the files with the output of a job and its debug logs, and what is missing."""
    directory = Path(facts.files.directory or ".")
    outputs = dict.fromkeys((facts.files.output, facts.files.error))
    named = [directory / name for name in outputs if name and name != "/dev/null"]
    files = [path for path in named if path.is_file()]
    missing = [f"{path}: the output of the job is not there" for path in named if path not in files]
    if not named and directory.is_dir():  # the accounting has no name of the file
        files = sorted(path for path in directory.glob(f"*{facts.number}*.out") if path.is_file())
        missing = (
            [] if files else [f"no file *{facts.number}*.out in {directory}: give the output of the job by its name"]
        )
    debug = directory / DEBUG.format(job=facts.number)
    return [*files, *([debug] if debug.is_dir() else [])], missing
