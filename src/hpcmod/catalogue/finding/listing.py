"""The containers that a user can see, in catalogues and installed, each with how it can be used here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hpcmod.catalogue.records.index import Index, IndexEntry
from hpcmod.catalogue.records.store import Catalogue, is_unreadable
from hpcmod.modules import Installed

READY, AVAILABLE, ELSEWHERE, RESTRICTED = "ready", "available", "elsewhere", "restricted"
"""Can be used now; can be installed; is for another machine; is for a group that the user is not in."""


@dataclass(frozen=True)
class Listed:
    """A container as a user sees it."""

    module: str
    place: str
    """One of READY, AVAILABLE, ELSEWHERE, RESTRICTED."""
    state: str
    """State from its record; `published` if it has none."""
    size: int
    """Bytes of the image; 0 if unknown."""
    machine: str
    """Site profile it is for; empty for any."""
    architecture: str
    aliases: tuple[str, ...]
    until: str
    successor: str
    description: str
    catalogue: str
    """Directory of its catalogue; empty if it is in none."""
    yours: bool
    """Whether the module is one of the user's own installations."""
    copy: str = ""
    """Which copy is used: own or site; empty if none is installed."""


def list_containers(
    indexes: Sequence[Index], installed: Iterable[Installed], *, site: str, architecture: str
) -> list[Listed]:
    """Merge catalogues and own installations: one entry per name and version, where earlier ones hide later ones.

    Sorted by name; within a name by catalogue, in which versions are sorted.

    `site`, `architecture`: Name of this machine's site profile, and its architecture as a GOARCH value.
    """
    own = {copy.module: copy for copy in installed}
    by_module: dict[str, Listed] = {}
    for index in indexes:
        visible = set(_visible_modules(index.catalogue, {entry.name for entry in index.entries}))
        for entry in index.entries:
            if entry.module not in by_module:
                fits = entry.site in ("", site) and entry.architecture in ("", architecture)
                here = entry.module in visible and entry.state != "retired"
                by_module[entry.module] = _of_entry(entry, index.catalogue, own, fits=fits, here=here)
    for module, copy in own.items():
        if module not in by_module:
            size, machine = copy.image.size, copy.record.site
            by_module[module] = Listed(module, READY, "published", size, machine, "", (), "", "", "", "", True)
    return sorted(by_module.values(), key=lambda listed: listed.module.rpartition("/")[0].lower())


def _of_entry(entry: IndexEntry, catalogue: Catalogue, own: dict[str, Installed], *, fits: bool, here: bool) -> Listed:
    yours = entry.module in own
    place = AVAILABLE if fits else ELSEWHERE
    if fits and is_unreadable(catalogue, entry.sif):
        place, here = RESTRICTED, False
    return Listed(
        entry.module,
        READY if yours or (fits and here) else place,
        entry.state,
        entry.size,
        entry.site,
        entry.architecture,
        tuple(entry.aliases.split()),
        entry.until,
        entry.successor,
        entry.description,
        str(catalogue.directory),
        yours,
    )


def _visible_modules(catalogue: Catalogue, names: Iterable[str]) -> Iterator[str]:
    tree = str(catalogue.modules)
    for name in names:
        with suppress(OSError), os.scandir(f"{tree}/{name}") as entries:
            yield from (
                f"{name}/{entry.name.removesuffix('.lua')}" for entry in entries if not entry.name.startswith(".")
            )
