"""The file of an index: its entries, and by package the entries that have it, in a form that can be read in parts.

    line 1   its sources: by name of a container, when its directory below records/ was last changed
    line 2   the entries, sorted, their numbers, and the first number never used
    line 3   the names of all packages, in comparable form, with length and CRC-32 of their lines
    then     one line per package: by version, the numbers of the entries that have it, such as 0-5,9

A record that is read again gets a new number, so that the lines of other packages stay unchanged; numbers without an
entry are ignored.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from hpcmod.fs.reading import open_regular
from hpcmod.model.images.facts import Package, comparable_name

INDEX_VERSION = 3

_LIMIT = 1 << 30  # bytes; with 10,000 containers it has 30 MB

Lines = list[tuple[str, str]]
"""Names of packages, in comparable form, each with its line."""
Packages = dict[str, dict[str, list[int]]]
"""By name of a package as written, and by version: numbers of the entries that have it, ascending."""


class IndexEntry(NamedTuple):
    """What lists show of a container; each field is that of its record."""

    name: str
    version: str
    state: str
    site: str
    architecture: str
    size: int
    sha256: str
    sif: str
    easyconfig: str
    description: str
    aliases: str
    """Separated by spaces."""
    until: str
    successor: str
    tested: bool
    targets: str
    """Separated by spaces."""

    @property
    def module(self) -> str:
        """Return the short module name."""
        return f"{self.name}/{self.version}"


def add_packages(lines: Lines, packages: Packages) -> Lines:
    """Return sorted lines with packages added, whose entry numbers are all higher than those in the lines."""
    left = {name: {one: _write_ranges(numbers) for one, numbers in found.items()} for name, found in packages.items()}
    keys = {comparable_name(name) for name in left}
    merged = []
    for key, line in lines:
        found = json.loads(line) if key in keys else {}
        added = left.pop(found.get("name", ""), None)
        merged.append((key, _render_package(found["name"], found["versions"], added) if added else line))
    return sorted(
        [*merged, *((comparable_name(name), _render_package(name, {}, added)) for name, added in left.items())]
    )


def _render_package(name: str, before: dict[str, str], added: dict[str, str]) -> str:
    both = {one: ",".join(it[one] for it in (before, added) if one in it) for one in sorted({*before, *added})}
    return json.dumps({"name": name, "versions": both}) + "\n"


def render_index(
    directories: dict[str, int], listed: Sequence[tuple[int, IndexEntry]], next_number: int, lines: Lines
) -> str:
    """Render an index file.

    Parameters
    ----------
    directories
        When the directories of its records were last changed, in nanoseconds.
    listed
        Entries with their numbers, in list order.
    next_number
        The first number never used.
    """
    values = {"next": next_number, "numbers": [one for one, _ in listed], "entries": [entry for _, entry in listed]}
    entries = json.dumps(values, separators=(",", ":")) + "\n"
    sums = [[key, len(line), zlib.crc32(line.encode())] for key, line in lines]
    keys = json.dumps(sums, separators=(",", ":")) + "\n"
    head = {
        "index": INDEX_VERSION,
        "directories": directories,
        "entries": len(entries),
        "keys": len(keys),
        "packages": sum(len(line) for _, line in lines),
        "crc32": zlib.crc32((entries + keys).encode()),
    }
    return "".join([json.dumps(head), "\n", entries, keys, *(line for _, line in lines)])


def _write_ranges(numbers: list[int]) -> str:
    """Return ascending numbers in the form 0-5,9."""
    runs = ([number for _, number in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]))
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _read_ranges(text: str) -> Iterator[int]:
    for run in text.split(","):
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class Stored:
    """An intact index file, and which of its entries are still valid."""

    file: mmap.mmap
    """The file as opened, even if a newer one has replaced it."""
    current: frozenset[str]
    """Names of containers whose records have not changed since."""
    complete: bool
    """Whether these are all the records that it was made from."""
    entries: tuple[IndexEntry, ...]
    numbers: list[int]
    """Entry numbers, which the package lines refer to."""
    next_number: int
    """The first number never used."""
    keys: list[list[Any]]
    """Names of packages, each with the length in bytes and the CRC-32 of its line."""
    start: int
    """Offset of the first package line."""

    def numbered(self) -> dict[int, IndexEntry]:
        """Return the entries that are still valid, by number."""
        return {number: entry for number, entry in zip(self.numbers, self.entries) if entry.name in self.current}

    def lines(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """Yield the wanted packages, each with its line; raise ValueError if it is damaged."""
        at = self.start
        for key, length, crc in self.keys:
            if wanted(key):
                line = self.file[at : at + length]
                if zlib.crc32(line) != crc:
                    raise ValueError(f"the line of {key} does not match its checksum")
                yield key, line.decode()
            at += length

    def packages(self, wanted: Callable[[str], bool]) -> Iterator[tuple[IndexEntry, Package]]:
        """Yield the wanted packages, each with a container whose entry is still valid."""
        numbered = self.numbered()
        for _, line in self.lines(wanted):
            found = json.loads(line)
            for version, ranges in found["versions"].items():
                package = Package(found["name"], version)
                having = (numbered.get(number) for number in _read_ranges(ranges))
                yield from ((entry, package) for entry in having if entry)


def open_stored(path: Path, directories: dict[str, int]) -> Stored | None:
    """Open an index file; return None if it does not exist, is damaged or has another version."""
    try:
        with open_regular(path, follow=False) as opened:
            if os.fstat(opened.fileno()).st_size > _LIMIT:
                return None
            file = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        head = json.loads(file.readline())
        entries, keys = file.read(head["entries"]), file.read(head["keys"])
        start = file.tell()
        sound = (head["index"], start + head["packages"]) == (INDEX_VERSION, len(file))
        if not sound or zlib.crc32(entries + keys) != head["crc32"]:
            return None
        made_of = head["directories"]
        current = frozenset(name for name, when in directories.items() if made_of.get(name) == when)
        known = json.loads(entries)
        found = tuple(map(IndexEntry._make, known["entries"]))
        whole = len(current) == len(made_of)
        return Stored(file, current, whole, found, known["numbers"], known["next"], json.loads(keys), start)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
