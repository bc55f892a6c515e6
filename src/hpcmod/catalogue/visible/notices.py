"""Notices on disk: what a module prints when it loads, one file per SIF, generated from records and advisories."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hpcmod.catalogue.records.index import IndexEntry, read_index
from hpcmod.catalogue.records.sharing import file_mode
from hpcmod.catalogue.records.store import Catalogue, catalogue_directories
from hpcmod.catalogue.text.notice import (
    ALL,
    LIMIT,
    render_advisory_notice,
    render_notices,
    render_state_notice,
)
from hpcmod.catalogue.values.advisory import Advisory
from hpcmod.catalogue.visible.advisories import read_advisories
from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.reading import read_text
from hpcmod.core.values.facts import Package
from hpcmod.modules import read_record
from hpcmod.modules.values.plan import InstallPlan, with_notices, with_own_packages

_OURS = re.compile(rf"[0-9a-f]{{64}}|{ALL}")


def look_for_notices(plan: InstallPlan, environ: Mapping[str, str]) -> InstallPlan:
    """Return a plan whose module reads notices of the catalogues known now, and uses packages that fit its image."""
    places = [Catalogue(place).notices.absolute() for place in catalogue_directories(plan.site, environ)]
    sha256 = read_record(Path(plan.spec.root)).image.sha256
    return with_own_packages(with_notices(plan, map(str, places), sha256), sha256)


def write_notices(catalogue: Catalogue, *, tell: Callable[[str], None]) -> tuple[str, ...]:
    """Update the notices of a catalogue to its records and advisories; files that are up to date are not touched.

    The caller must hold the catalogue's lock. Each file is replaced atomically, and removed if there is nothing to say.
    Returns the names of the files that changed, sorted.

    `tell`: Called with a line about each invalid advisory, which no module shows, and each file over the size limit.
    """
    read = tuple(read_advisories([catalogue]))
    for fault in read:
        if isinstance(fault, BadInputError):
            tell(f"left out: {fault.message}")
    advisories = [advisory for advisory in read if isinstance(advisory, Advisory)]
    made = make_notices(catalogue, advisories)
    wanted = {name: render_notices(notices) for name, notices in made.items()}
    for name, notices in made.items():
        if missing := sum(notice not in wanted[name] for notice in notices):
            tell(f"left out: {missing} of {len(notices)} notices of {name}, as they are longer than {LIMIT >> 10} KiB")
    changed = {name for name, text in wanted.items() if _read(catalogue.notices / name) != text}
    for name in changed:
        catalogue.tree.make_directory(catalogue.notices)
        catalogue.tree.write(catalogue.notices / name, wanted[name], mode=file_mode(catalogue.directory))
    there = [path.name for path in catalogue.notices.glob("*")]
    gone = {name for name in there if _OURS.fullmatch(name) and name not in wanted}
    for name in gone:
        catalogue.tree.remove(catalogue.notices / name)
    return tuple(sorted(changed | gone))


def _read(path: Path) -> str:
    try:
        return read_text(path, LIMIT << 4)
    except (OSError, UnicodeDecodeError):
        return ""


def describe_reach(catalogue: Catalogue, advisories: Sequence[Advisory], *, now: float) -> Iterator[str]:
    """Yield a line about each advisory: the containers of the catalogue that it concerns, or why no module shows it.

    `now`: Seconds since 1970.
    """
    for advisory, entries in _concerned(catalogue, advisories):
        if now >= advisory.until:
            reach = f"expired on {advisory.expires}, so it is not shown"
        elif advisory.for_all:
            reach = "all containers"
        elif entries:
            states = ((entry.module, "" if entry.state == "published" else f" ({entry.state})") for entry in entries)
            reach = ", ".join(map("".join, states))
        elif advisory.digests:
            reach = "no container in the catalogue; users' own copies with these digests show it"
        elif advisory.modules:
            reach = f"no container in the catalogue is called {' or '.join(advisory.modules)}"
        else:
            reach = "no container in the catalogue has such a package"
        yield f"{advisory.name}: {reach}"


def _concerned(catalogue: Catalogue, advisories: Sequence[Advisory]) -> Iterator[tuple[Advisory, list[IndexEntry]]]:
    """Yield each advisory, and the containers of the catalogue that it concerns."""
    index = read_index(catalogue)
    names = {wanted.name for advisory in advisories for wanted in advisory.packages}
    inside: dict[str, list[Package]] = defaultdict(list)
    for entry, package in index.find_packages(names.__contains__) if names else ():
        inside[entry.module].append(package)
    for advisory in advisories:
        about = [each for each in index.entries if advisory.concerns(each.module, each.sha256, inside[each.module])]
        yield advisory, about


def make_notices(catalogue: Catalogue, advisories: Sequence[Advisory]) -> Mapping[str, list[str]]:
    """Return all notices of a catalogue by file name."""
    notices: dict[str, list[str]] = defaultdict(list)
    for advisory, about in _concerned(catalogue, advisories):
        names = [ALL] if advisory.for_all else [*advisory.digests, *(entry.sha256 for entry in about)]
        for name in dict.fromkeys(names):
            notices[name].append(render_advisory_notice(advisory))
    entries = read_index(catalogue).entries
    images = [entry.sha256 for entry in entries]
    for entry in entries:
        if entry.state != "published":
            # `verify` reports a damaged record; the others get their notices all the same
            with suppress(BadInputError):
                record = catalogue.find(entry.name, entry.version)
                if record:
                    named = images.count(record.sha256) > 1
                    notices[entry.sha256].append(render_state_notice(record, named=named))
    return notices
