"""Notices on disk: what a module prints when it loads, one file per SIF, generated from records and advisories."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hpcmod.catalogue.records.index import read_index
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


def find_silent(catalogue: Catalogue, advisories: Sequence[Advisory], *, now: float) -> Iterator[str]:
    """Yield a line about each advisory that no module of the catalogue shows.

    `now`: Seconds since 1970.
    """
    entries, inside = read_index(catalogue).entries, _find_inside(catalogue, advisories)
    for advisory in advisories:
        about = (advisory.concerns(entry.module, entry.sha256, inside.get(entry.module, ())) for entry in entries)
        if now >= advisory.until:
            yield f"{advisory.name}: expired on {advisory.expires}, so it is not shown"
        elif advisory.for_all or advisory.digests or any(about):
            continue
        elif advisory.modules:
            yield f"{advisory.name}: no container in the catalogue is called {' or '.join(advisory.modules)}"
        else:
            yield f"{advisory.name}: no container in the catalogue has such a package"


def _find_inside(catalogue: Catalogue, advisories: Iterable[Advisory]) -> Mapping[str, list[Package]]:
    """Return the packages that advisories are about, by the module that contains them."""
    names = {wanted.name for advisory in advisories for wanted in advisory.packages}
    found: dict[str, list[Package]] = defaultdict(list)
    for entry, package in read_index(catalogue).find_packages(names.__contains__) if names else ():
        found[entry.module].append(package)
    return found


def make_notices(catalogue: Catalogue, advisories: Sequence[Advisory]) -> Mapping[str, list[str]]:
    """Return all notices of a catalogue by file name."""
    notices: dict[str, list[str]] = defaultdict(list)
    for advisory in advisories:
        for name in (ALL,) if advisory.for_all else advisory.digests:
            notices[name].append(render_advisory_notice(advisory))
    entries = read_index(catalogue).entries
    images = [entry.sha256 for entry in entries]
    inside = _find_inside(catalogue, advisories)
    by_name = [advisory for advisory in advisories if advisory.modules or advisory.packages]
    for entry in entries:
        for advisory in by_name:
            if advisory.concerns(entry.module, entry.sha256, inside.get(entry.module, ())):
                notices[entry.sha256].append(render_advisory_notice(advisory))
        if entry.state != "published":
            # `verify` reports a damaged record; the others get their notices all the same
            with suppress(BadInputError):
                record = catalogue.find(entry.name, entry.version)
                if record:
                    named = images.count(record.sha256) > 1
                    notices[entry.sha256].append(render_state_notice(record, named=named))
    return notices
