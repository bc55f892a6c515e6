"""What a catalogue holds that nobody needs: leftovers, the images of retired containers; and what nobody loads."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcmod.catalogue.change import Actor, changing, write_note
from hpcmod.catalogue.store import Catalogue
from hpcmod.catalogue.visible import usage_file, visible_files
from hpcmod.catalogue.whole import software_of
from hpcmod.image.provenance import sidecar
from hpcmod.lock import read_holder
from hpcmod.model.catalogue.advisory import seconds_of
from hpcmod.model.catalogue.record import CatalogueRecord

_DAY = 86400.0


@dataclass(frozen=True)
class Unused:
    """Something that is not needed, or not used."""

    what: str
    """A path of the catalogue, or a module."""
    why: str
    size: int
    """Bytes on disk; 0: not counted."""
    remove: bool
    """Whether `gc` removes it; what is published is only reported."""


@dataclass(frozen=True)
class Use:
    """How often a module was loaded since the catalogue began to count."""

    loads: int
    last: float
    """Seconds since 1970; when it was published, if it was never loaded."""


def read_use(catalogue: Catalogue, record: CatalogueRecord) -> Use | None:
    """Read how often a module was loaded; None where nobody counts."""
    try:
        found = usage_file(catalogue, record).stat()
    except FileNotFoundError:
        return None
    return Use(found.st_size, found.st_mtime)


def find_unused(catalogue: Catalogue, *, days: float, now: float) -> Iterator[Unused]:
    """Find what nobody needs, or has used for so many days.

    Parameters
    ----------
    now
        Seconds since 1970.
    """
    records = tuple(catalogue.records())
    yield from _find_leftovers(catalogue, records, days=days, now=now)
    for record in records:
        use = read_use(catalogue, record)
        idle = use is not None and now - use.last > days * _DAY
        # retiring wrote the record: jobs that were queued then, and restoring it, have as many days
        changed = catalogue.record_path(record.name, record.version).stat().st_mtime
        old = now - max(changed, seconds_of(record.until or "1970-01-01")) > days * _DAY
        if record.state == "retired" and old and (use is None or idle):
            for path in (catalogue.images / record.sif, software_of(catalogue, record)):
                if path.exists():
                    yield Unused(_name(catalogue, path), f"of {record.module}, which is retired", _size(path), True)
        elif use and idle and record.state != "retired":
            yield Unused(record.module, f"loaded {use.loads} times, last on {_day(use.last)}", record.size, False)


def _find_leftovers(
    catalogue: Catalogue, records: tuple[CatalogueRecord, ...], *, days: float, now: float
) -> Iterator[Unused]:
    """Find what belongs to no container: publishing was killed, or was undone."""
    images = {record.sif for record in records}
    images |= {sidecar(Path(name)).name for name in images}
    known = {(record.name, record.version) for record in records}
    found = [path for path in _children(catalogue.images) if path.name not in images]
    for place in (catalogue.software, catalogue.kept):
        found += [one for name in _children(place) for one in _children(name) if (name.name, one.name) not in known]
    found += _children(catalogue.staging)
    needed = {path for record in records for path, _ in visible_files(catalogue, record)}
    found += [path for path in _children(catalogue.code) if path not in needed]
    for path in found:
        if now - path.lstat().st_mtime > days * _DAY and not _is_being_published(catalogue, path):
            yield Unused(_name(catalogue, path), "belongs to no container", _size(path), True)


def _children(place: Path) -> list[Path]:
    """List what lies in a directory; hidden are EasyBuild's own locks."""
    return sorted(path for path in place.iterdir() if path.name != ".locks") if place.is_dir() else []


def _is_being_published(catalogue: Catalogue, path: Path) -> bool:
    names = (f"image-{path.name}", path.name, f"{path.parent.name}@{path.name}")
    return any(read_holder(catalogue.locks / f"{name}.lock") for name in names)


def _name(catalogue: Catalogue, path: Path) -> str:
    return str(path.relative_to(catalogue.directory))


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _size(path: Path) -> int:
    """Bytes on disk that go with a path; of a file with two names none."""
    if not path.is_dir() or path.is_symlink():
        found = path.lstat()
        return found.st_blocks * 512 if found.st_nlink == 1 else 0
    return sum(_size(Path(entry.path)) for entry in os.scandir(path))


def remove_unused(catalogue: Catalogue, *, days: float, now: float, actor: Actor) -> list[Unused]:
    """Remove what `find_unused` says is to be removed, with a line in the journal, and give all that it says."""
    with changing(catalogue, actor):
        found = list(find_unused(catalogue, days=days, now=now))
        gone = [one for one in found if one.remove]
        for one in gone:
            _remove(catalogue.directory / one.what)
        if gone:
            write_note(catalogue, "gc", f"removed {', '.join(one.what for one in gone)}", actor)
    return found


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
