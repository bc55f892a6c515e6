"""The index of a catalogue: what lists and searches need of all records, in two JSON files generated from them.

`index.json` has the containers by name and version, and `packages.json` where each package is, both with the time when
the directory of records of each name last changed. Names that have changed since are read from their records: a
missing, old or damaged index costs time, but never gives wrong results.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.order import release_key
from hpcmod.core.errors import HpcmodError, explain_os_error
from hpcmod.core.fs.reading import open_regular, read_whole
from hpcmod.core.fs.tree import write_file
from hpcmod.core.values.facts import Package, comparable_name
from hpcmod.core.values.text import is_file_name

if TYPE_CHECKING:
    from hpcmod.catalogue.values.record import CatalogueRecord

INDEX, PACKAGES = "index.json", "packages.json"
FORMAT = 2

_LIMIT = 1 << 30  # bytes
_BLANK = "\0"
"""Written instead of a blank in the version of a package, where a blank ends it; no valid version has any."""
_TICK = 0.02
"""Seconds within which a local disk may give two changes the same time."""
_SECOND = 1.05
"""The same for disks that count full seconds, such as Lustre."""


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


_TYPES = [{"size": int, "tested": bool}.get(field, str) for field in IndexEntry._fields]

_Versions = dict[str, dict[str, Any]]
"""By version of a container: the fields of its entry."""

_Places = dict[str, str]
"""By name of a package: MODULE==VERSION for each container that has it; JSON reads one string ten times as fast."""


@dataclass(frozen=True)
class Index:
    """All containers of a catalogue in their current state."""

    catalogue: Catalogue
    entries: tuple[IndexEntry, ...]
    """Sorted by name, and by version with numbers as numbers."""
    damaged: tuple[str, ...] = ()
    """Errors of the records that could not be read."""

    def find_packages(self, wanted: Callable[[str], bool]) -> Iterator[tuple[IndexEntry, Package]]:
        """Yield the containers with the packages whose names, in the form of `comparable_name`, are wanted."""
        inside: dict[str, list[Package]] = {}
        for name in sorted(name for name in self._places if wanted(comparable_name(name))):
            for text in self._places[name].split(" "):
                module, _, version = text.partition("==")
                inside.setdefault(module, []).append(Package(name, version.replace(_BLANK, " ")))
        for entry in self.entries:
            yield from ((entry, package) for package in inside.get(entry.module, ()))

    @cached_property
    def _places(self) -> _Places:
        places, fresh = _read_places(self.catalogue.directory / PACKAGES, _look(self.catalogue))
        changed = {entry.name for entry in self.entries} - fresh
        return _merge_places(places, fresh, _read_records(self.catalogue, changed, {})) if changed else places


def write_index(catalogue: Catalogue, *, anew: bool = False) -> None:
    """Write the index, after each change, as holder of the catalogue's lock; only records that changed are read.

    `anew`: Ignore the old index and read all records.
    """
    from hpcmod.catalogue.records.sharing import file_mode  # commands that only read need not import it

    changed = _look(catalogue)
    _wait_for_the_next_tick(changed.values())
    files = (catalogue.directory / INDEX, catalogue.directory / PACKAGES)
    old = {} if anew else changed
    entries, (places, fresh) = _read_stored(files[0], old), _read_places(files[1], old)
    damaged: dict[str, str] = {}
    records = list(_read_records(catalogue, changed.keys() - (entries.keys() & fresh), damaged))
    for record in records:
        entries.setdefault(record.name, {})[record.version] = _make_entry(record)._asdict()
    names = {name: entries[name] for name in sorted(entries) if name not in damaged}
    places = _merge_places(places, fresh & entries.keys() - {record.name for record in records}, records)
    index = {name: {"changed": changed[name], "versions": versions} for name, versions in names.items()}
    times = {name: changed[name] for name in names}
    written: tuple[dict[str, Any], ...] = ({"names": index}, {"names": times, "packages": places})
    for file, values in zip(files, written):
        write_file(file, json.dumps({"format": FORMAT, **values}) + "\n", mode=file_mode(catalogue.directory))


def read_index(catalogue: Catalogue) -> Index:
    """Return the index; names that changed after it was written are read from their records."""
    try:
        changed = _look(catalogue)
    except OSError as err:
        return Index(catalogue, (), (explain_os_error(err).message,))
    stored = _read_entries(catalogue.directory / INDEX, changed)
    damaged: dict[str, str] = {}
    read = map(_make_entry, _read_records(catalogue, changed.keys() - stored.keys(), damaged))
    entries = sorted([*(entry for versions in stored.values() for entry in versions), *read], key=_order)
    return Index(catalogue, tuple(entries), tuple(damaged.values()))


def _read_entries(path: Path, changed: Mapping[str, int]) -> dict[str, list[IndexEntry]]:
    stored = _read_stored(path, changed)
    try:
        entries = {name: [IndexEntry(**fields) for fields in versions.values()] for name, versions in stored.items()}
    except TypeError:  # a field is missing or unknown
        return {}
    sound = all(_is_sound(entry, name) for name, versions in entries.items() for entry in versions)
    return entries if sound else {}


def _is_sound(entry: IndexEntry, name: str) -> bool:
    """Return whether an entry has values as `check_record` accepts them: users paste its names into their shells."""
    names = (entry.name, entry.version, *entry.aliases.split())
    return [type(value) for value in entry] == _TYPES and entry.name == name and all(map(is_file_name, names))


def _read_stored(path: Path, changed: Mapping[str, int]) -> dict[str, _Versions]:
    """Return what a file of the index has of the names whose records have not changed since; nothing if damaged."""
    try:
        stored = _load(path)["names"].items()
        names = {name: kept["versions"] for name, kept in stored if kept["changed"] == changed.get(name)}
        sound = all(isinstance(values, dict) for versions in names.values() for values in versions.values())
        return names if sound else {}
    except _DAMAGE:
        return {}


_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


def _order(entry: IndexEntry) -> tuple[Any, ...]:
    return entry.name.lower(), entry.name, release_key(entry.version), entry.version


def _make_entry(record: CatalogueRecord) -> IndexEntry:
    known = {**vars(record.content), **vars(record.publication), **vars(record.notice), **vars(record)}
    texts = {
        "aliases": " ".join(record.aliases),
        "targets": " ".join(record.content.targets),
        "description": " ".join(record.publication.description.split())[:200],
    }
    values = {**known, **texts, "tested": record.tested}
    return IndexEntry(*(values[name] for name in IndexEntry._fields))


def _merge_places(places: _Places, kept: Collection[str], records: Iterable[CatalogueRecord]) -> _Places:
    """Return where packages are in containers of the kept names and in those of the records."""
    merged = {
        name: [module for module in text.split(" ") if module.partition("/")[0] in kept]
        for name, text in places.items()
    }
    for record in records:
        for name, version in {package.name: package.version for package in record.content.packages}.items():
            merged.setdefault(name, []).append(f"{record.module}=={version.replace(' ', _BLANK)}")
    return {name: " ".join(sorted(inside)) for name, inside in sorted(merged.items()) if inside}


def _read_places(path: Path, changed: Mapping[str, int]) -> tuple[_Places, set[str]]:
    """Return where packages are, and the names of the containers for which that is current; nothing if damaged."""
    try:
        stored = _load(path)
        fresh = {name for name, when in stored["names"].items() if when == changed.get(name)}
        sound = all(isinstance(text, str) for text in stored["packages"].values())
        return (stored["packages"], fresh) if sound else ({}, set())
    except _DAMAGE:
        return {}, set()


def _load(path: Path) -> Any:
    with open_regular(path, follow=False) as file:
        stored = json.loads(read_whole(file, path, _LIMIT))
    if stored["format"] != FORMAT:
        raise ValueError("another format")
    return stored


def _look(catalogue: Catalogue) -> dict[str, int]:
    """Return when each directory of records was last changed, in nanoseconds; renaming a record into it changes it."""
    changed = {}
    with suppress(FileNotFoundError):
        for directory in os.scandir(catalogue.records_directory):
            if not directory.name.startswith(".") and directory.is_dir():
                changed[directory.name] = directory.stat().st_mtime_ns
    return changed


def _wait_for_the_next_tick(times: Iterable[int]) -> None:
    """Wait until a change after this one gets a different time; times are in nanoseconds."""
    newest = max(times, default=0)
    if time.time_ns() - newest < 60e9:
        time.sleep(_TICK if newest % 1_000_000_000 else _SECOND)


def _read_records(catalogue: Catalogue, names: Iterable[str], damaged: dict[str, str]) -> Iterator[CatalogueRecord]:
    """Yield the records of some containers; add errors to `damaged` by container name."""
    for name in sorted(names):
        try:
            versions = sorted(catalogue.versions(name))
        except (HpcmodError, OSError) as err:
            damaged[name] = (explain_os_error(err) if isinstance(err, OSError) else err).message
            continue
        for version in versions:
            try:
                record = catalogue.find(name, version)
            except (HpcmodError, OSError) as err:
                damaged[name] = (explain_os_error(err) if isinstance(err, OSError) else err).message
                continue
            if record and (record.name, record.version) != (name, version):
                damaged[name] = f"{catalogue.record_path(name, version)}: is the record of {record.module}"
            elif record:
                yield record
