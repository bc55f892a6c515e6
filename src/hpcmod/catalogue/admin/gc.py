"""Find what is no longer needed in a catalogue: leftovers, images of retired containers, and modules no one loads."""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.catalogue.change import Actor, changing, commit, find_lost
from hpcmod.catalogue.records.sharing import find_private
from hpcmod.catalogue.records.store import REBUILD, Catalogue, software_of
from hpcmod.catalogue.storage.trash import check_removable, delete_trash
from hpcmod.catalogue.storage.usage import read_counts
from hpcmod.catalogue.values.advisory import seconds_of
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.values.usage import Count, add_up
from hpcmod.catalogue.visible.kept import rendering_name
from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.tree import Tree
from hpcmod.core.lock import read_holder
from hpcmod.images import Sif

_DAY = 86400.0


@dataclass(frozen=True)
class Unused:
    """Something that is not needed, or not used."""

    what: str
    """A path in the catalogue, or a module."""
    why: str
    size: int
    """Bytes on disk; 0 if not counted."""
    remove: bool
    """Whether `gc` removes it; what is published, or may be another user's, is only reported."""
    private: str = ""
    """A directory that only its owner may change, which is why it is not removed."""


def _read_uses(catalogue: Catalogue, now: float) -> Mapping[str, Count] | None:
    """Return the loads of each module; None if they are not counted or this user may not see the counts."""
    if not catalogue.counts_use:
        return None
    try:
        counts = read_counts(catalogue, now)
    except LackingError:
        return None
    totals = add_up(counts, lambda count: replace(count, month="", group="", user=""))
    return {count.module: count for count in totals}


def find_unused(catalogue: Catalogue, *, days: float, now: float) -> list[Unused]:
    """Return what is not needed, or has not been used for some days.

    `now`: Seconds since 1970.

    Raises BadInputError if the record of a published container is missing or damaged.
    """
    for name, version in find_lost(catalogue):
        path = catalogue.record_path(name, version)
        raise BadInputError(f"{path} is lost, so gc would remove what users load", f"Restore it: {REBUILD}")
    links: dict[tuple[int, int], int] = {}
    found = reversed(list(_find(catalogue, days=days, now=now)))  # the first name of a file has its size
    return [_with_size(catalogue, unused, links) for unused in found][::-1]


def _with_size(catalogue: Catalogue, unused: Unused, links: dict[tuple[int, int], int]) -> Unused:
    if not (unused.remove or unused.private):
        return unused
    return replace(unused, size=_size(catalogue.directory / unused.what, links if unused.remove else {}))


def _find(catalogue: Catalogue, *, days: float, now: float) -> Iterator[Unused]:
    records = tuple(catalogue.records())
    yield from _find_leftovers(catalogue, records, days=days, now=now)
    uses = _read_uses(catalogue, now)
    for record in records:
        use = None if uses is None else uses.get(record.module, Count(record.module, "", "", "", 0, 0))
        since = max(use.last if use else 0.0, _published(record))
        idle = use is not None and now - since > days * _DAY
        # retiring wrote the record: queued jobs, and a restore, have as many days from then
        changed = catalogue.record_path(record.name, record.version).stat().st_mtime
        old = now - max(changed, seconds_of(record.notice.until or "1970-01-01")) > days * _DAY
        if record.state == "retired" and old and (use is None or idle):
            for path in (catalogue.images / record.sif, software_of(catalogue, record)):
                if path.exists():
                    yield _removable(catalogue, path, f"of {record.module}, which is retired")
        elif use and idle and record.state != "retired":
            yield Unused(record.module, _describe(use), record.size, False)


def _find_leftovers(
    catalogue: Catalogue, records: tuple[CatalogueRecord, ...], *, days: float, now: float
) -> Iterator[Unused]:
    """Yield what belongs to no container, after publishing was killed or undone."""
    images = {record.sif for record in records}
    images |= {Sif(name).sidecar.name for name in images}
    known = {(record.name, record.version): record for record in records}
    found = [path for path in _children(catalogue.images) if path.name not in images]
    for place in (catalogue.software, catalogue.kept):
        found += [path for path in _children(place) if path.is_symlink()]
        for path in (path for name in _children(place) for path in _children(name)):
            record = known.get((path.parent.name, path.name.partition("@")[0]))
            if record is None:
                found.append(path)
            elif place == catalogue.kept and path.name != rendering_name(record.version, record.rendering):
                yield from _find_former(catalogue, record, path, days=days, now=now)
    found += _children(catalogue.staging)
    for path in found:
        if now - path.lstat().st_mtime > days * _DAY and not _is_being_published(catalogue, path):
            yield _removable(catalogue, path, "belongs to no container")


def _find_former(
    catalogue: Catalogue, record: CatalogueRecord, path: Path, *, days: float, now: float
) -> Iterator[Unused]:
    """Yield a former rendering that a refresh replaced and that is old enough to remove."""
    replaced = catalogue.record_path(record.name, record.version).stat().st_mtime
    if now - max(replaced, path.lstat().st_mtime) > days * _DAY:
        yield _removable(catalogue, path, f"a former rendering of {record.module}")


def _removable(catalogue: Catalogue, path: Path, why: str) -> Unused:
    private = find_private(catalogue, path)
    named = _name(catalogue, private) if private else ""
    return Unused(_name(catalogue, path), why, 0, not private, named)


def _children(place: Path) -> list[Path]:
    """Return the entries of a directory, except EasyBuild's locks; a link is not followed and so has no entries."""
    if place.is_symlink() or not place.is_dir():
        return []
    return [place / name for name in Tree(place).names() if name != ".locks"]


def _is_being_published(catalogue: Catalogue, path: Path) -> bool:
    names = (f"image-{path.name}", path.name, f"{path.parent.name}@{path.name}")
    return any(read_holder(catalogue.locks / f"{name}.lock") for name in names)


def _name(catalogue: Catalogue, path: Path) -> str:
    return str(path.relative_to(catalogue.directory))


def _published(record: CatalogueRecord) -> float:
    """Return when a container was published, in seconds since 1970; 0 if unknown."""
    with suppress(ValueError):
        return float(calendar.timegm(time.strptime(record.publication.published, "%Y-%m-%dT%H:%M:%SZ")))
    return 0.0


def _describe(use: Count) -> str:
    if not use.loads:
        return "never loaded since the catalogue began to count"
    day = time.strftime("%Y-%m-%d", time.gmtime(use.last))
    return f"loaded {use.loads} time{'s' * (use.loads > 1)}, last on {day}"


def _size(path: Path, links: dict[tuple[int, int], int]) -> int:
    """Return the bytes on disk that removing a path frees; 0 for a file that keeps a name.

    `links`: The names left of each file, of which this removes some.
    """
    if path.is_dir() and not path.is_symlink():
        return sum(_size(Path(entry.path), links) for entry in os.scandir(path))
    status = path.lstat()
    file = (status.st_dev, status.st_ino)
    links[file] = links.get(file, status.st_nlink) - 1
    return 0 if links[file] else status.st_blocks * 512


def remove_unused(catalogue: Catalogue, *, days: float, now: float, actor: Actor) -> tuple[list[Unused], int]:
    """Remove what `find_unused` marks, all or nothing; return all that it found, and the ID of the change.

    Files are renamed out of the catalogue as one change of the journal, and only then deleted.

    Raises LackingError if this user may not remove some of it; then nothing is changed.
    """
    with changing(catalogue, actor, frees=True):
        unused = find_unused(catalogue, days=days, now=now)
        gone = [item.what for item in unused if item.remove]
        check_removable(catalogue, gone)
        why = ": ".join(filter(None, (actor.why, f"removed {', '.join(gone)}")))
        change = commit(catalogue, {}, verb="gc", actor=replace(actor, why=why), removed=gone)
        for why_not in delete_trash(catalogue):
            actor.tell(f"removed from the catalogue, but not deleted from the disk: {why_not}; the next gc tries again")
    return unused, change.id if gone else 0
