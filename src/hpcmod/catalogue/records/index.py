"""The index of a catalogue: what lists and searches need of all records, in one file generated from them.

Readers and writers use its entries that are still valid, and read the records of the containers that have changed
since: a missing, old or damaged index costs time, but never gives wrong results.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcmod.catalogue.records.index_file import (
    IndexEntry,
    Lines,
    Packages,
    Stored,
    add_packages,
    open_stored,
    render_index,
)
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.errors import HpcmodError, explain_os_error
from hpcmod.fs.tree import write_file
from hpcmod.model.catalogue.order import release_key
from hpcmod.model.images.facts import Package, comparable_name

if TYPE_CHECKING:
    from hpcmod.model.catalogue.record import CatalogueRecord

INDEX = "index.jsonl"

_SPARE = 0.25
"""Maximum of unused numbers per entry; with more, rebuilding from all records is worth the time."""

_TICK = 0.02
"""Seconds within which a local disk may give two changes the same time."""
_SECOND = 1.05
"""The same for disks that count full seconds, such as Lustre."""


@dataclass(frozen=True)
class Index:
    """All containers of a catalogue in their current state."""

    catalogue: Catalogue
    entries: tuple[IndexEntry, ...]
    """Sorted by name, and by version with numbers as numbers."""
    damaged: tuple[str, ...] = ()
    """Errors of the records that could not be read."""
    _stored: Stored | None = None
    _changed: tuple[str, ...] = ()
    """Names of containers that are missing or outdated in the index."""

    def find_packages(self, wanted: Callable[[str], bool]) -> Iterator[tuple[IndexEntry, Package]]:
        """Yield the containers with the packages whose names, in the form of `comparable_name`, are wanted."""
        try:
            found = list(self._stored.packages(wanted)) if self._stored else []
            changed: Iterable[str] = self._changed
        except (ValueError, KeyError, TypeError, AttributeError):  # a line is damaged
            found, changed = [], {entry.name for entry in self.entries}
        yield from found
        entries = {(entry.name, entry.version): entry for entry in self.entries}
        for record in _read_records(self.catalogue, changed, {}):
            entry = entries.get((record.name, record.version))
            yield from ((entry, one) for one in record.packages if entry and wanted(comparable_name(one.name)))


def write_index(catalogue: Catalogue, *, anew: bool = False) -> None:
    """Write the index, after each change, as holder of the catalogue's lock; entries that are still valid are reused.

    Parameters
    ----------
    anew
        Ignore the old index and use only the records.
    """
    from hpcmod.catalogue.records.sharing import file_mode  # commands that only read need not import it

    path = catalogue.directory / INDEX
    directories = _look(catalogue)
    _wait_for_the_next_tick(directories.values())
    numbered, next_number, lines = _take_over(None if anew else open_stored(path, directories))
    taken = {entry.name for entry in numbered.values()}
    damaged: dict[str, str] = {}
    records = _read_records(catalogue, [name for name in directories if name not in taken], damaged)
    added, packages = _collect(records, first=next_number)
    whole = {name: when for name, when in directories.items() if name not in damaged}
    listed = sorted({**numbered, **added}.items(), key=lambda pair: _order(pair[1].name, pair[1].version))
    text = render_index(whole, listed, next_number + len(added), add_packages(lines, packages))
    write_file(path, text, mode=file_mode(catalogue.directory))


def read_index(catalogue: Catalogue) -> Index:
    """Return the index; if the file is out of date, the records are read."""
    try:
        directories = _look(catalogue)
    except OSError as err:
        return Index(catalogue, (), (explain_os_error(err).message,))
    stored = open_stored(catalogue.directory / INDEX, directories)
    changed = [name for name in directories if not (stored and name in stored.current)]
    if stored and stored.complete and not changed:
        return Index(catalogue, stored.entries, (), stored)
    damaged: dict[str, str] = {}
    read = [_make_entry(record) for record in _read_records(catalogue, changed, damaged)]
    kept = [entry for entry in stored.entries if entry.name in stored.current] if stored else []
    entries = sorted([*kept, *read], key=lambda entry: _order(entry.name, entry.version))
    return Index(catalogue, tuple(entries), tuple(damaged.values()), stored, tuple(changed))


def _order(name: str, version: str) -> tuple[Any, ...]:
    return name.lower(), name, release_key(version), version


def _make_entry(record: CatalogueRecord) -> IndexEntry:
    values = {name: getattr(record, name) for name in IndexEntry._fields}
    said = " ".join(record.description.split())[:200]
    lists = {"aliases": " ".join(record.aliases), "targets": " ".join(record.targets)}
    return IndexEntry(**{**values, **lists, "description": said})


def _look(catalogue: Catalogue) -> dict[str, int]:
    """Return when each directory of records was last changed, in nanoseconds; renaming a record into it changes it."""
    found = {}
    with suppress(FileNotFoundError):
        for directory in os.scandir(catalogue.records_directory):
            if not directory.name.startswith(".") and directory.is_dir():
                found[directory.name] = directory.stat().st_mtime_ns
    return found


def _wait_for_the_next_tick(times: Iterable[int]) -> None:
    """Wait until a change after this one gets a different time; times are in nanoseconds."""
    newest = max(times, default=0)
    if time.time_ns() - newest < 60e9:
        time.sleep(_TICK if newest % 1_000_000_000 else _SECOND)


def _read_records(catalogue: Catalogue, names: Iterable[str], damaged: dict[str, str]) -> Iterator[CatalogueRecord]:
    """Yield the records of some containers, sorted; add errors to `damaged` by container name."""
    keys = []
    for name in names:
        try:
            keys += [(name, version) for version in catalogue.versions(name)]
        except OSError as err:
            damaged[name] = explain_os_error(err).message
    for name, version in sorted(keys, key=lambda key: _order(*key)):
        try:
            record = catalogue.find(name, version)
        except (HpcmodError, OSError) as err:
            damaged[name] = (explain_os_error(err) if isinstance(err, OSError) else err).message
            continue
        if record and (record.name, record.version) != (name, version):
            damaged[name] = f"{catalogue.record_path(name, version)}: is the record of {record.module}"
        elif record:
            yield record


def _take_over(stored: Stored | None) -> tuple[dict[int, IndexEntry], int, Lines]:
    """Return the entries of an index that are still valid, the first number never used, and its package lines."""
    if stored is None or stored.next_number > (1 + _SPARE) * len(stored.entries) + 100:
        return {}, 0, []
    try:
        return stored.numbered(), stored.next_number, list(stored.lines(lambda _: True))
    except ValueError:
        return {}, 0, []


def _collect(records: Iterable[CatalogueRecord], *, first: int) -> tuple[dict[int, IndexEntry], Packages]:
    """Return only the index fields of each record: 10,000 complete records would need half a gigabyte."""
    entries: dict[int, IndexEntry] = {}
    packages: Packages = {}
    for number, record in enumerate(records, first):
        entries[number] = _make_entry(record)
        for package in record.packages:
            packages.setdefault(package.name, {}).setdefault(package.version, []).append(number)
    return entries, packages
