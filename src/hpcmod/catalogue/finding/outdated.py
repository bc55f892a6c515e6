"""Find the user's own installations that differ from what the catalogues offer, with a command to update each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hpcmod import __version__
from hpcmod.catalogue.finding.find import choose_entry
from hpcmod.catalogue.records.index import Index, IndexEntry
from hpcmod.catalogue.values.order import release_key
from hpcmod.modules import Installed, find_damage


@dataclass(frozen=True)
class Outdated:
    """A reason to update an installation."""

    module: str
    kind: str
    """state: deprecated or retired; image: another image is published under its name; scripts: another hpcmod wrote
    them; version: a newer version is published; damaged: its image or some of its scripts are missing."""
    found: str
    cure: str
    """A command."""


def find_outdated(installed: Iterable[Installed], indexes: Sequence[Index]) -> Iterator[Outdated]:
    """Compare installations with the catalogues, and with what this hpcmod writes."""
    for own in installed:
        listed = [entry for index in indexes for entry in index.entries if entry.name == own.name]
        same = next((entry for entry in listed if entry.version == own.version), None)
        meant = choose_entry([entry for entry in listed if entry.state == "published"], own.name)
        newer = meant.module if meant and release_key(meant.version) > release_key(own.version) else ""
        if same:
            yield from _compare(own, same, newer)
        damage = find_damage(own)
        if damage:
            yield Outdated(own.module, "damaged", damage, f"hpcmod update {own.module}")
        if own.record.hpcmod != __version__:
            found = f"its scripts were written by hpcmod {own.record.hpcmod or '?'}; this is {__version__}"
            yield Outdated(own.module, "scripts", found, f"hpcmod update {own.module}")
        if newer and not (same and same.state != "published"):  # which names it already
            yield Outdated(own.module, "version", f"{newer} is published", f"hpcmod install {newer}")


def _compare(own: Installed, same: IndexEntry, newer: str) -> Iterator[Outdated]:
    if same.state != "published":
        until = f" until {same.until}" if same.until else ""
        cure = f"hpcmod install {same.successor or newer}" if same.successor or newer else "hpcmod ls"
        yield Outdated(own.module, "state", f"{same.state}{until}", cure)
    if own.image.sha256 not in ("", same.sha256) and same.state != "retired":
        yield Outdated(own.module, "image", "another image is published under this name", f"hpcmod update {own.module}")
