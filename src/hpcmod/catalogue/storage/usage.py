"""Count how often modules are loaded, so that users cannot change each other's counts.

Each load creates one empty file in `usage/loads/`, named after the container and 128 random bits. The name cannot be
guessed, so a load never opens a link or FIFO of another user. The directory is sticky and not readable: owner, group
and time of a file say who loaded what and when; only its owner can change them, and only admins can list them. `fold`
replaces the files by totals; only the owner of the directory can do that.
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
from hpcmod.catalogue.values.usage import Count, Totals, add_up, parse_totals, render_totals
from hpcmod.core.errors import LackingError

_NAME = r"([A-Za-z0-9_][A-Za-z0-9._+~-]*)"
_LOAD = re.compile(f"{_NAME}@{_NAME}@[0-9a-f]{{32}}")
_TOTALS = "totals.json"
_LIMIT = 256 << 20  # bytes


def read_counts(catalogue: Catalogue, now: float | None = None) -> tuple[Count, ...]:
    """Read all counts: totals, and the loads since then.

    `now`: The current time in seconds since 1970; later loads count as of now. None: read the clock.

    Raises LackingError if this user cannot list the loads.
    """
    files = (catalogue.usage / _TOTALS, catalogue.loads)
    if not all(os.access(path, os.R_OK) or not os.access(path, os.F_OK) for path in files):
        cure = f"Ask {catalogue.directory.owner()}, or another admin."
        raise LackingError(f"only admins of {catalogue.directory} can see who loaded what", cure)
    totals = _read_totals(catalogue)
    loads = list(_read_loads(catalogue, totals, now))
    return add_up((*totals.counts, *(count for _, count in loads)), replace)


def fold(catalogue: Catalogue, *, keep_users: bool) -> int:
    """Replace the files of loads by totals and return the number of files; call it within `changing`.

    Other files in their directory are removed.

    If interrupted, run it again: no load is lost or counted twice.

    `keep_users`: Whether totals contain the user of each load, or only the group.

    Raises LackingError if this user does not own the directory: only its owner can remove users' files.
    """
    if catalogue.loads.stat().st_uid != os.geteuid() and os.geteuid() != 0:
        raise LackingError(
            f"only {catalogue.loads.owner()} can remove files from {catalogue.loads}",
            f"Ask {catalogue.loads.owner()} to run it.",
        )
    totals = _read_totals(catalogue)
    present = {f"{catalogue.loads.name}/{name}" for name in catalogue.tree.names(catalogue.loads)}
    files = list(_read_loads(catalogue, totals, None))

    def kept(count: Count) -> Count:
        return count if keep_users else replace(count, user="")

    counts = add_up((*totals.counts, *(count for _, count in files)), kept)
    names = {name for name, _ in files} | totals.folded
    _write_totals(catalogue, Totals(counts, frozenset(names)))
    for name in names | present:
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
    # only admins who can publish may see who loaded what
    mode = file_mode(catalogue.directory) & 0o660
    catalogue.tree.write(catalogue.usage / _TOTALS, render_totals(totals), mode=mode)


def _read_loads(catalogue: Catalogue, totals: Totals, now: float | None) -> Iterator[tuple[str, Count]]:
    """Yield the files of loads that are not in the totals yet: name below `usage`, and its count.

    Any user can create files with any name and time. Names of unknown containers and times before 1970 are ignored, and
    a time in the future counts as now.
    """
    known, latest = set(catalogue.containers()), time.time() if now is None else now
    for name, status in catalogue.tree.entries(catalogue.loads):
        found, below = _LOAD.fullmatch(name), f"{catalogue.loads.name}/{name}"
        # loading a module creates neither links nor second names
        if not found or (found[1], found[2]) not in known or below in totals.folded:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_mtime >= 0:
            when = int(min(status.st_mtime, latest))
            month = time.strftime("%Y-%m", time.gmtime(when))
            module = f"{found[1]}/{found[2]}"
            yield below, Count(module, month, str(status.st_gid), str(status.st_uid), 1, when)
