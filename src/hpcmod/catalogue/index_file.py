"""The file of an index: its entries, and by package which of them have it, in a form of which little need be read.

    line 1   what it was made of: by name of a container, when its directory below records/ was last changed
    line 2   the entries, sorted, their numbers, and the first number that was never given
    line 3   the names of all packages, as they are compared, with length and CRC-32 of their lines
    then     one line a package: by version, the numbers of the entries that have it, as in 0-5,9

What is read again gets new numbers, so that the lines of other packages stay as they are; numbers that nobody has any
more mean nothing.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from hpcmod.fs.reading import open_regular
from hpcmod.model.facts import Package

INDEX_VERSION = 2

_LIMIT = 1 << 30  # bytes; of 10,000 containers it has 30 MB

Lines = list[tuple[str, str]]
"""Names of packages, as they are compared, each with its line."""
Packages = dict[str, dict[str, list[int]]]
"""By name of a package as written, and by version: numbers of the entries that have it, rising."""


class IndexEntry(NamedTuple):
    """What lists say of a container; each field is that of its record."""

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
    """Separated by blanks."""
    until: str
    successor: str
    tested: bool

    @property
    def module(self) -> str:
        """Short module name."""
        return f"{self.name}/{self.version}"


def comparable(name: str) -> str:
    """Write the name of a package as package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def add_packages(lines: Lines, packages: Packages) -> Lines:
    """Add packages to lines, whose numbers are all lower; sorted."""
    left = {name: {one: _write_ranges(numbers) for one, numbers in found.items()} for name, found in packages.items()}
    keys = {comparable(name) for name in left}
    merged = []
    for key, line in lines:
        found = json.loads(line) if key in keys else {}
        added = left.pop(found.get("name", ""), None)
        merged.append((key, _render_package(found["name"], found["versions"], added) if added else line))
    return sorted([*merged, *((comparable(name), _render_package(name, {}, added)) for name, added in left.items())])


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
        When those whose records it is made of were last changed, in nanoseconds.
    listed
        Entries with their numbers, in the order of lists.
    next_number
        The first that was never given.
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
    """Write rising numbers as 0-5,9."""
    runs = ([number for _, number in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]))
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _read_ranges(text: str) -> Iterator[int]:
    for run in text.split(","):
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class Stored:
    """An index file that is whole, and what of it is still true."""

    file: mmap.mmap
    """What was opened, also when a newer one has taken its name."""
    current: frozenset[str]
    """Names of containers whose records are the ones that it was made of."""
    complete: bool
    """Whether these are all that it was made of."""
    entries: tuple[IndexEntry, ...]
    numbers: list[int]
    """By which the lines of packages mean them."""
    next_number: int
    """The first that was never given."""
    keys: list[list[Any]]
    """Names of packages, each with the bytes and the CRC-32 of its line."""
    start: int
    """Where the lines of packages begin."""

    def numbered(self) -> dict[int, IndexEntry]:
        """Return by their numbers the entries that are still true."""
        return {number: entry for number, entry in zip(self.numbers, self.entries) if entry.name in self.current}

    def lines(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """Yield the packages that are wanted, each with its line; ValueError if it is broken."""
        at = self.start
        for key, length, crc in self.keys:
            if wanted(key):
                line = self.file[at : at + length]
                if zlib.crc32(line) != crc:
                    raise ValueError(f"the line of {key} is not the one that was written")
                yield key, line.decode()
            at += length

    def packages(self, wanted: Callable[[str], bool]) -> Iterator[tuple[IndexEntry, Package]]:
        """Yield the packages that are wanted, each with a container whose records it knows."""
        numbered = self.numbered()
        for _, line in self.lines(wanted):
            found = json.loads(line)
            for version, ranges in found["versions"].items():
                package = Package(found["name"], version)
                having = (numbered.get(number) for number in _read_ranges(ranges))
                yield from ((entry, package) for entry in having if entry)


def open_stored(path: Path, directories: dict[str, int]) -> Stored | None:
    """Read an index file; None if there is none, or it is not whole, or of another version."""
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
