"""Count how often modules are loaded, without a place in which users could change each other's counts.

A load makes one empty file in `usage/loads/`, named after the container and 128 random bits. Nobody can know that name
before, so a load never opens what another user put there, be it a link or a FIFO. The directory is sticky and not
readable: who loaded what is told by owner, group and time of the file, which only its owner can change, and only admins
can list. Adding up (`fold`) replaces the files by totals; it needs the owner of the directory.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import replace

from hpcmod.catalogue.records.sharing import file_mode
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.errors import LackingError
from hpcmod.model.catalogue.usage import Count, Totals, add_up, parse_totals, render_totals

_NAME = r"([A-Za-z0-9_][A-Za-z0-9._+~-]*)"
_LOAD = re.compile(f"{_NAME}@{_NAME}@[0-9a-f]{{32}}")
_FORMER = re.compile(f"{_NAME}@{_NAME}")
_TOTALS = "totals.json"
_LIMIT = 256 << 20  # bytes


def read_counts(catalogue: Catalogue, now: float | None = None) -> tuple[Count, ...]:
    """Read all counts: totals, the loads since, and what an older hpcmod counted.

    Parameters
    ----------
    now
        The present, in seconds since 1970, which no load is later than; None for that of the clock.

    Raises
    ------
    LackingError
        If this user may not see who loaded what.
    """
    totals = _read_totals(catalogue)
    try:
        loads = list(_read_loads(catalogue, totals, now))
    except PermissionError as err:
        raise LackingError(
            f"you may not list {catalogue.loads}", f"Ask {catalogue.directory.owner()}, or somebody who may publish."
        ) from err
    return add_up((*totals.counts, *(one for _, one in loads), *(one for _, one in _read_former(catalogue))), replace)


def fold(catalogue: Catalogue, *, keep_users: bool) -> int:
    """Replace files of loads by totals, within `changing`; return how many there were.

    Interrupted, it can be run again: no load is lost or counted twice.

    Parameters
    ----------
    keep_users
        Whether totals say which user loaded a module; else only the group.

    Raises
    ------
    LackingError
        If the user does not own the directory: nobody else may remove users' files from it.
    """
    if catalogue.loads.stat().st_uid != os.geteuid() and os.geteuid() != 0:
        raise LackingError(
            f"only {catalogue.loads.owner()} may remove files from {catalogue.loads}",
            f"Have {catalogue.loads.owner()} run it.",
        )
    totals = _read_totals(catalogue)
    files = [*_read_loads(catalogue, totals, None), *_read_former(catalogue)]

    def kept(one: Count) -> Count:
        return one if keep_users else replace(one, user="")

    counts = add_up((*totals.counts, *(one for _, one in files)), kept)
    names = {name for name, _ in files} | totals.folded
    _write_totals(catalogue, Totals(counts, frozenset(names)))
    for name in names:
        catalogue.tree.remove(catalogue.usage / name)
    _write_totals(catalogue, Totals(counts))
    return len(files)


def _read_totals(catalogue: Catalogue) -> Totals:
    path = catalogue.usage / _TOTALS
    try:
        return parse_totals(catalogue.read_file(path, _LIMIT), str(path))
    except FileNotFoundError:
        return Totals()


def _write_totals(catalogue: Catalogue, totals: Totals) -> None:
    # who loaded what is for those who may publish
    mode = file_mode(catalogue.directory) & 0o660
    catalogue.tree.write(catalogue.usage / _TOTALS, render_totals(totals), mode=mode)


def _read_loads(catalogue: Catalogue, totals: Totals, now: float | None) -> Iterator[tuple[str, Count]]:
    """Yield the files of loads that are in no total yet: name below `usage`, and what it counts.

    Every user may make files of any name and time. What names no container of the catalogue counts for nothing, and a
    time in the future is the present.
    """
    known, latest = set(catalogue.containers()), time.time() if now is None else now
    for name, status in catalogue.tree.entries(catalogue.loads):
        found, below = _LOAD.fullmatch(name), f"{catalogue.loads.name}/{name}"
        # a link or a second name is not what loading makes
        if not found or (found[1], found[2]) not in known or below in totals.folded:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            when = min(status.st_mtime, latest)
            month = time.strftime("%Y-%m", time.gmtime(when))
            module = f"{found[1]}/{found[2]}"
            yield below, Count(module, month, str(status.st_gid), str(status.st_uid), 1, when)


def _read_former(catalogue: Catalogue) -> Iterator[tuple[str, Count]]:
    """Yield the files of an older hpcmod: each load made them a byte longer."""
    for name, status in catalogue.tree.entries(catalogue.usage):
        found = _FORMER.fullmatch(name)
        if found and stat.S_ISREG(status.st_mode) and status.st_size:
            yield name, Count(f"{found[1]}/{found[2]}", "", "", "", status.st_size, status.st_mtime)
