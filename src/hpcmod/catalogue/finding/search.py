"""Search containers by their names, descriptions and packages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Optional

from hpcmod.catalogue.records.index import Index, IndexEntry
from hpcmod.catalogue.records.store import is_unreadable
from hpcmod.catalogue.values.order import begins_with
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import Package, comparable_name
from hpcmod.modules import Installed

_Version = Optional[Callable[[str], bool]]
"""Whether a version is searched; None: any, also of what has none."""


@dataclass(frozen=True)
class Hit:
    """A container that matches the search."""

    module: str
    catalogue: str
    """Directory of its catalogue; empty if it is in none."""
    state: str
    packages: tuple[Package, ...]
    """Packages that match; may be empty if its name, an alias, its description or a target matches."""
    targets: tuple[str, ...] = ()
    """Micro-architectures that its image is built for; empty if not known."""


def search(indexes: Sequence[Index], text: str, *, installed: Sequence[Installed] = ()) -> list[Hit]:
    """Return the matching containers, matches by name first; earlier catalogues hide the same container in later ones.

    Installations that are in no catalogue come last.

    `text`: Part of a name, version, description, target (gfx90a) or package name, ignoring case and treating `-`, `_`
        and `.` as the same; `torch==2.7` finds packages whose version begins with 2.7, `torch>=2.7,<2.9` those in this
        range. If nothing matches, abbreviations are tried: flash-attention finds flash_attn.

    Raises BadInputError if a condition of versions is not valid.
    """
    name, conditions = split_conditions(text)
    wanted = comparable_name(name)
    if not wanted:
        return []
    version = _parse_conditions(conditions) if conditions.strip("= ") else None
    hidden = {entry.module for index in indexes for entry in index.entries}
    own = [copy for copy in installed if copy.module not in hidden]

    def hits(fits: Callable[[str], bool], wanted: str) -> list[Hit]:
        found = _search(indexes, fits, version, wanted=wanted)
        return [*found, *_search_installed(own, fits, version, wanted=wanted)]

    return hits(lambda key: wanted in key, wanted) or hits(lambda key: is_abbreviated(key, wanted), "")


def split_conditions(text: str) -> tuple[str, str]:
    """Return the name and the conditions of versions of what is searched, e.g. torch and `>=2.7,<2.9`."""
    name = re.split("[<>=!~]", text, maxsplit=1)[0]
    return name.strip(), text[len(name) :].strip()


def _parse_conditions(text: str) -> Callable[[str], bool]:
    """Return whether a version meets conditions; `==` also with the beginning of a version, which may have any form."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # few searches need it
    from packaging.version import InvalidVersion

    words = [word.strip() for word in text.split(",")]
    starts = [word[2:].strip().removesuffix(".*") for word in words if re.match("==[^=]", word)]
    try:
        others = SpecifierSet(",".join(word for word in words if not re.match("==[^=]", word)), prereleases=True)
    except InvalidSpecifier as err:
        raise BadInputError(
            f"{text!r} is not a valid condition of versions", "Write torch==2.7, or 'torch>=2.7,<2.9' in quotes."
        ) from err

    def holds(version: str) -> bool:
        with suppress(InvalidVersion):
            return all(begins_with(version, start) for start in starts) and (not others or version in others)
        return False

    return holds


def is_abbreviated(one: str, other: str) -> bool:
    """Return whether two comparable names differ only by abbreviated words, as flash-attn and flash-attention do."""
    words, others = one.split("-"), other.split("-")
    return len(words) == len(others) and all(map(_abbreviates, words, others))


def _abbreviates(one: str, other: str) -> bool:
    """Return whether one of two words has three or more letters and abbreviates the other."""
    short, long = sorted((one, other), key=len)
    if short == long:
        return True
    return len(short) >= 3 and short[:1] == long[:1] and re.search(".*".join(map(re.escape, short)), long) is not None


def _search(indexes: Sequence[Index], fits: Callable[[str], bool], version: _Version, *, wanted: str) -> list[Hit]:
    named: dict[str, Hit] = {}
    inside: dict[str, Hit] = {}
    hidden: set[str] = set()
    for index in indexes:
        if wanted and not version:
            found = (_for_user(index, entry) for entry in index.entries if wanted in _text_of(entry))
            visible = (entry for entry in found if entry.module not in hidden and wanted in _text_of(entry))
            named |= {entry.module: _hit(index, entry) for entry in visible}
        packages: dict[IndexEntry, list[Package]] = {}
        for entry, package in index.find_packages(fits):
            if entry.module not in hidden and (version is None or version(package.version)):
                packages.setdefault(entry, []).append(package)
        readable = (entry for entry in packages if not is_unreadable(index.catalogue, entry.sif))
        inside |= {entry.module: _hit(index, entry, packages[entry]) for entry in readable}
        hidden |= {entry.module for entry in index.entries}
    first = [inside.get(module, hit) for module, hit in named.items()]
    return [*first, *(hit for module, hit in inside.items() if module not in named)]


def _search_installed(
    installed: Iterable[Installed], fits: Callable[[str], bool], version: _Version, *, wanted: str
) -> Iterator[Hit]:
    for copy in installed:
        targets = copy.record.fit.targets
        packages = [
            package
            for package in copy.record.packages
            if fits(comparable_name(package.name)) and (version is None or version(package.version))
        ]
        named = bool(wanted) and not version and wanted in _plain(" ".join((copy.module, *targets)))
        if named or packages:
            yield Hit(copy.module, "", "published", tuple(packages), targets)


def _for_user(index: Index, entry: IndexEntry) -> IndexEntry:
    """Return an entry without what its image contains, if this user may not read that."""
    return entry._replace(targets="") if is_unreadable(index.catalogue, entry.sif) else entry


def _text_of(entry: IndexEntry) -> str:
    return _plain(f"{entry.name}/{entry.version} {entry.aliases} {entry.targets} {entry.description}")


def _plain(text: str) -> str:
    """Normalize a string almost as `comparable_name` does, but fast enough for 10,000 of them."""
    return text.lower().replace("_", "-").replace(".", "-")


def _hit(index: Index, entry: IndexEntry, packages: Iterable[Package] = ()) -> Hit:
    targets = tuple(entry.targets.split())
    return Hit(entry.module, str(index.catalogue.directory), entry.state, tuple(packages), targets)
