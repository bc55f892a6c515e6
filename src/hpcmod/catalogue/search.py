"""Search containers by their names, descriptions, and the packages inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hpcmod.catalogue.index import Index
from hpcmod.catalogue.index_file import IndexEntry, comparable
from hpcmod.model.facts import Package


@dataclass(frozen=True)
class Hit:
    """A container that fits what was searched for."""

    module: str
    catalogue: str
    """Directory of its catalogue."""
    state: str
    packages: tuple[Package, ...]
    """Those that fit; empty where its name, an alias or its description does."""


def search(indexes: Sequence[Index], text: str) -> list[Hit]:
    """Search; the catalogue that comes first hides the same container in a later one. Names of containers come first.

    Parameters
    ----------
    text
        Part of a name, of a version, of a description or of the name of a package, in any case, `-`, `_` and `.` being
        the same; `torch==2.7` asks for packages of a version that begins so. Where nothing fits, abbreviations do:
        flash-attention finds flash_attn.
    """
    name, _, version = text.partition("==")
    wanted = comparable(name.strip())
    if not wanted:
        return []
    hits = _search(indexes, lambda key: wanted in key, version.strip(), wanted=wanted)
    return hits or _search(indexes, lambda key: is_abbreviated(key, wanted), version.strip(), wanted="")


def is_abbreviated(one: str, other: str) -> bool:
    """Say whether two comparable names are the same but for abbreviated words, as flash-attn and flash-attention."""
    words, others = one.split("-"), other.split("-")
    return len(words) == len(others) and all(map(_abbreviates, words, others))


def _abbreviates(one: str, other: str) -> bool:
    """Say whether one of two words begins as the other does, and has its letters in their order, three or more."""
    short, long = sorted((one, other), key=len)
    if short == long:
        return True
    return len(short) >= 3 and short[:1] == long[:1] and re.search(".*".join(map(re.escape, short)), long) is not None


def _search(indexes: Sequence[Index], fits: Callable[[str], bool], version: str, *, wanted: str) -> list[Hit]:
    named: dict[str, Hit] = {}
    inside: dict[str, Hit] = {}
    hidden: set[str] = set()
    for index in indexes:
        if wanted and not version:
            found = (_hit(index, entry) for entry in index.entries if wanted in _text_of(entry))
            named |= {hit.module: hit for hit in found if hit.module not in hidden}
        packages = _search_packages(index, fits, version)
        inside |= {module: hit for module, hit in packages.items() if module not in hidden}
        hidden |= {entry.module for entry in index.entries}
    return [*named.values(), *(hit for module, hit in inside.items() if module not in named)]


def _text_of(entry: IndexEntry) -> str:
    """Give what a text is searched in, nearly as `comparable` does, but fast: 10,000 are no reason to wait."""
    text = f"{entry.name}/{entry.version} {entry.aliases} {entry.description}".lower()
    return text.replace("_", "-").replace(".", "-")


def _search_packages(index: Index, fits: Callable[[str], bool], version: str) -> dict[str, Hit]:
    """Search packages; in the order of the containers."""
    found: dict[IndexEntry, list[Package]] = {}
    for entry, package in index.find_packages(fits):
        if package.version.startswith(version):
            found.setdefault(entry, []).append(package)
    return {entry.module: _hit(index, entry, found[entry]) for entry in index.entries if entry in found}


def _hit(index: Index, entry: IndexEntry, packages: Iterable[Package] = ()) -> Hit:
    return Hit(entry.module, str(index.catalogue.directory), entry.state, tuple(packages))
