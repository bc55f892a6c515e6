"""Find and read the files that profilers left of the ranks of a run, and write the merged trace."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.reading import read_file
from hpcmod.core.fs.tree import write_file
from hpcmod.core.values.strict_json import load_json
from hpcmod.runs.values.logs.traces import MergedTrace, RankTrace, parse_trace

PREFIX = "hpcmod-profile-{job}-rank"
"""Beginning of the names of what `conda-python-distributed --profile-rank` writes."""

_LARGEST = 1 << 28  # bytes of one trace, unpacked
_MOST_BYTES = 1 << 30  # of all traces
_MOST_FILES = 2048
_MOST_LEVELS = 3  # of directories: rocprofv3 writes RANK/HOST/PROCESS_name.csv
_RANK = re.compile(r"rank[-_]?(\d{1,7})")


def find_profiles(directory: Path, job: str) -> list[Path]:
    """Return the files and directories that the profilers of a job left in a directory."""
    beginning = PREFIX.format(job=job)
    try:
        return sorted(path for path in directory.iterdir() if path.name.startswith(beginning))
    except OSError:
        return []


def read_profiles(paths: Iterable[Path]) -> tuple[tuple[RankTrace, ...], tuple[str, ...]]:
    """Return the traces in JSON files, also those compressed by gzip, by rank; and what was not read, as sentences.

    Raises NotFoundError if a path does not exist.
    """
    traces: list[RankTrace] = []
    problems: list[str] = []
    left = _MOST_BYTES
    for number, path in enumerate(_list_files(paths)):
        if number >= _MOST_FILES:
            problems.append(f"only {_MOST_FILES} files were read")
            break
        if not path.name.endswith((".json", ".json.gz")):
            problems.append(f"{path} stays as it is: only traces in JSON are merged")
            continue
        try:
            data = _read_unpacked(path, min(left, _LARGEST))
            left -= len(data)
            traces.append(parse_trace(load_json(data, str(path), limit=_LARGEST), str(path), rank=_find_rank(path)))
        except BadInputError as err:
            problems.append(err.message)
        except (OSError, EOFError, zlib.error) as err:
            problems.append(f"{path} was not read: {getattr(err, 'strerror', None) or err}")
    return tuple(sorted(traces, key=lambda trace: trace.rank)), tuple(problems)


def _list_files(paths: Iterable[Path], levels: int = _MOST_LEVELS) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            entries = sorted(Path(entry.path) for entry in os.scandir(path) if not entry.is_symlink())
            yield from _list_files(entries, levels - 1) if levels else ()
        elif path.exists():
            yield path
        else:
            raise NotFoundError(f"{path}: no such file", "Give a job ID, or files that a profiler wrote.")


def _read_unpacked(path: Path, limit: int) -> bytes:
    data = read_file(path, limit)
    if not path.name.endswith(".gz"):
        return data
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        unpacked = file.read(limit + 1)
    if len(unpacked) > limit:
        raise BadInputError(f"{path}: larger than {limit} bytes", "Record fewer steps.")
    return unpacked


def _find_rank(path: Path) -> int | None:
    """Return the rank in the name of a file, or of a directory above it; None if there is none."""
    for name in (path.name, *(above.name for above in list(path.parents)[:_MOST_LEVELS])):
        numbers = _RANK.findall(name)
        if numbers:
            return int(numbers[-1])
    return None


def write_trace(merged: MergedTrace, path: Path) -> None:
    """Write a merged trace to a new file, which replaces one of that name.

    Raises BadInputError if the directory does not exist or cannot be written to.
    """
    text = json.dumps(merged.values, separators=(",", ":"))
    try:
        write_file(path, gzip.compress(text.encode()) if path.name.endswith(".gz") else text)
    except OSError as err:
        raise BadInputError(f"cannot write {path}: {err.strerror}", "Choose another file: -o FILE") from err
