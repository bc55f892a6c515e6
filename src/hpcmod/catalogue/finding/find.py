"""Find a container by what a user types: Name, Name/version, Name/alias, or part of a version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hpcmod.catalogue.records.store import Catalogue, is_refused
from hpcmod.catalogue.values.order import begins_with
from hpcmod.core.errors import LackingError, NotFoundError
from hpcmod.core.values.facts import architecture_name
from hpcmod.core.values.text import is_file_name
from hpcmod.machine.values.targets import runs_on

if TYPE_CHECKING:
    from hpcmod.catalogue.records.index import IndexEntry
    from hpcmod.catalogue.values.record import CatalogueRecord

_DEFAULTS = ("stable", "latest")
"""Aliases that a name without a version means, in order of priority."""


class Container(NamedTuple):
    """A container of a catalogue."""

    catalogue: Catalogue
    name: str
    version: str

    @property
    def module(self) -> str:
        """Return the short module name."""
        return f"{self.name}/{self.version}"

    def read(self) -> CatalogueRecord:
        """Return the container's record."""
        return self.catalogue.read(self.name, self.version)

    def read_if_allowed(self) -> CatalogueRecord:
        """Return the container's record; raise LackingError if its image is for a group without this user."""
        from hpcmod.catalogue.values.record import refusal

        record = self.read()
        if is_refused(self.catalogue, record):
            raise LackingError(refusal(record))
        return record


def find_container(
    catalogues: Sequence[Catalogue], text: str, *, machine: str = "", gpus: Callable[[], Sequence[str]] = lambda: ()
) -> Container:
    """Return the container that a text means; the first catalogue that has it wins.

    `text`: `PyTorch`: its stable version, else the latest, else the highest that is not deprecated or retired.
        `PyTorch/2.7.1-rocm-6.2.4`, `PyTorch/stable`; `PyTorch/2.7` if only one version begins so. Case counts only
        where two names differ in nothing else.
    `machine`: Architecture of this machine, as the kernel or a GOARCH value names it: of several containers that match,
        one for it is meant. Empty: all count alike.
    `gpus`: Returns the targets of this machine's GPUs, if it matters: a container that is built only for others comes
        last, and of several versions or variants of a release, one that is built for them is meant.

    Raises NotFoundError if no container or more than one matches; with the nearest names.
    """
    name, _, version = text.partition("/")
    exact = _find_exact(catalogues, name, version)
    if exact:
        return exact
    from hpcmod.catalogue.records.index import read_index  # an exact name needs no index

    indexes = [read_index(catalogue) for catalogue in catalogues]
    known = [(index.catalogue, _named(index.entries, name)) for index in indexes]
    living = [(owner, [e for e in entries if e.state != "retired"]) for owner, entries in known if not version]
    differ = len({(entry.architecture, entry.targets) for _, entries in known for entry in entries}) > 1
    here = gpus() if differ else ()
    fitting = [(owner, _fitting(entries, machine, here)) for owner, entries in (*living, *known) if differ]
    for catalogue, entries in (*fitting, *living, *known):
        entry = choose_entry(entries, text, gpus=here)
        if entry:
            return Container(catalogue, entry.name, entry.version)
    damaged = [message for index in indexes for message in index.damaged]
    raise _unknown(text, [entry for index in indexes for entry in index.entries], damaged)


def check_architecture(catalogues: Sequence[Catalogue], container: Container, *, machine: str) -> None:
    """Raise LackingError if a container is for another architecture; its cure names one that fits, if there is one."""
    from hpcmod.catalogue.records.index import read_index

    here, image = architecture_name(machine), container.read().content.architecture
    if image in ("", "unknown", here):
        return
    entries = (read_index(catalogue).entries for catalogue in catalogues)
    others = [choose_entry(_fitting(some, machine), container.name) for some in entries]
    fits = next((entry.module for entry in others if entry and entry.state != "retired"), "")
    raise LackingError(
        f"{container.module} is for {image}, this machine is {here}",
        f"For this machine: {fits}" if fits else f"No version of {container.name} in the catalogues is for {here}.",
    )


def find_variant(catalogues: Sequence[Catalogue], name: str, *, machine: str, gpus: Sequence[str]) -> str:
    """Return the module of a name that is built for an architecture and GPUs, as far as known; empty if none is."""
    from hpcmod.catalogue.records.index import read_index

    for catalogue in catalogues:
        entries = _fitting(_named(read_index(catalogue).entries, name), machine, gpus)
        built = [entry for entry in entries if entry.state != "retired" and _is_built_for(entry, gpus)]
        entry = choose_entry(built, name)
        if entry:
            return entry.module
    return ""


def _named(entries: Iterable[IndexEntry], name: str) -> list[IndexEntry]:
    return [entry for entry in entries if entry.name.lower() == name.lower()]


def _is_built_for(entry: IndexEntry, gpus: Sequence[str]) -> bool | None:
    return runs_on(entry.targets.split(), gpus)


def _fitting(entries: Iterable[IndexEntry], machine: str, gpus: Sequence[str] = ()) -> list[IndexEntry]:
    """Return the entries whose images are for an architecture and GPUs, or for unknown ones."""
    wanted = ("", "unknown", architecture_name(machine)) if machine else ()
    fitting = (entry for entry in entries if not machine or entry.architecture in wanted)
    return [entry for entry in fitting if _is_built_for(entry, gpus) is not False]


def _find_exact(catalogues: Sequence[Catalogue], name: str, version: str) -> Container | None:
    if not (is_file_name(name) and is_file_name(version)):
        return None
    having = (catalogue for catalogue in catalogues if catalogue.record_path(name, version).is_file())
    return next((Container(catalogue, name, version) for catalogue in having), None)


def choose_entry(entries: Iterable[IndexEntry], text: str, *, gpus: Sequence[str] = ()) -> IndexEntry | None:
    """Return the entry of one catalogue that a text means, as in find_container; None if no entry or several match."""
    name, _, version = text.partition("/")
    named = _named(entries, name)
    is_unique = len({entry.name for entry in named}) == 1
    named = [entry for entry in named if entry.name == name] or (named if is_unique else [])
    if not version:
        return _default(named, gpus)
    meant = [entry for entry in named if version in (entry.version, *entry.aliases.split())]
    begun = [entry for entry in named if begins_with(entry.version, version)]
    built = [entry for entry in begun if _is_built_for(entry, gpus)]
    return meant[0] if meant else next((some[0] for some in (begun, built) if len(some) == 1), None)


def _default(entries: Sequence[IndexEntry], gpus: Sequence[str]) -> IndexEntry | None:
    """Return the default among the versions of one name, which are sorted with the highest last.

    Of several variants of the highest release, which differ in the suffix, one that is built for the GPUs comes first.
    """
    for state in ("published", "deprecated", "retired"):
        left = [entry for entry in entries if entry.state == state]
        for alias in _DEFAULTS:
            for entry in left:
                if alias in entry.aliases.split():
                    return entry
        if left:
            release = left[-1].version.partition("-")[0]
            variants = (entry for entry in reversed(left) if entry.version.partition("-")[0] == release)
            return next((entry for entry in variants if _is_built_for(entry, gpus)), left[-1])
    return None


def _unknown(text: str, entries: Sequence[IndexEntry], damaged: Sequence[str]) -> NotFoundError:
    name, _, version = text.partition("/")
    begun = [entry.module for entry in entries if entry.name.lower() == name.lower() and version]
    near = [module for module in begun if begins_with(module.lower(), text.lower())]
    if begun:
        shown = ", ".join((near or begun)[:8]) + (", ..." if len(near or begun) > 8 else "")
        why = f"{text} is ambiguous" if near else f"no version {version} of {name} in any catalogue"
        return NotFoundError(why, f"Available: {shown}")
    if damaged:
        return NotFoundError(f"container {text} not found among those that can be read", "\n".join(damaged))
    if ":" in text:
        hub = text if "/" in text else f"library/{text}"
        return NotFoundError(f"container {text} not found", f"For an image of Docker Hub: docker://docker.io/{hub}")
    if not entries:
        return NotFoundError(f"container {text} not found: the catalogues are empty", f"{OTHER_PREFIX} {NO_CATALOGUE}")
    cure = did_you_mean(name, (entry.name for entry in entries))
    return NotFoundError(f"container {text} not found in any catalogue", cure)


OTHER_PREFIX = "If you installed it with --prefix DIR: module use DIR/modules/all."
NO_CATALOGUE = (
    "To make a module of an image: hpcmod install docker://HOST/NAME:TAG. "
    "To use a catalogue: HPCMOD_CATALOGUE=DIRECTORY, or `catalogues` in the site profile."
)


def did_you_mean(text: str, names: Iterable[str]) -> str:
    """Return a cure with the names nearest to that of a text, ignoring case."""
    from difflib import get_close_matches

    by_low: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        by_low.setdefault(name.lower(), []).append(name)
    near = get_close_matches(text.partition("/")[0].lower(), by_low, n=3, cutoff=0.5)
    meant = [name for low in near for name in by_low[low]]
    return f"Did you mean {' or '.join(meant)}? See: hpcmod ls" if meant else "See: hpcmod ls"


def choose_records(catalogue: Catalogue, names: Sequence[str]) -> list[CatalogueRecord]:
    """Return all versions of each NAME and the one version of each NAME/VERSION; all containers if no name is given.

    A retired container is included only if its version is named.

    Raises NotFoundError if a container does not exist.
    """
    if not names:
        return [record for record in catalogue.records() if record.state != "retired"]
    chosen: dict[str, CatalogueRecord] = {}
    for text in names:
        container = find_container([catalogue], text)
        named = [container.read()] if "/" in text else catalogue.named(container.name)
        chosen |= {record.module: record for record in named if "/" in text or record.state != "retired"}
    return list(chosen.values())
