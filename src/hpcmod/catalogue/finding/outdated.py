"""Find the user's own installations that differ from what the catalogues offer, with a command to update each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hpcmod.catalogue.finding.find import choose_entry
from hpcmod.catalogue.records.index import Index, IndexEntry
from hpcmod.check.installation import find_damage
from hpcmod.errors import HpcmodError
from hpcmod.install.installed import Installed
from hpcmod.model.catalogue.order import release_key
from hpcmod.model.images.reference import ImageReference

if TYPE_CHECKING:
    from hpcmod.image.tags import NewerImage

_MOST_NAMED = 3  # newer tags in one line


@dataclass(frozen=True)
class Outdated:
    """A reason to update an installation."""

    module: str
    kind: str
    """state: deprecated or retired; image: another image is published under its name; scripts: another hpcmod wrote
    them; version: a newer version is published; damaged: its image or some of its scripts are missing; tag: the tag of
    its image means another image in the registry; newer: the registry has newer tags of the same kind."""
    found: str
    cure: str
    """A command."""


def find_outdated(installed: Iterable[Installed], indexes: Sequence[Index], *, version: str) -> Iterator[Outdated]:
    """Compare installations with the catalogues.

    Parameters
    ----------
    version
        Version of this hpcmod.
    """
    for one in installed:
        listed = [entry for index in indexes for entry in index.entries if entry.name == one.name]
        same = next((entry for entry in listed if entry.version == one.version), None)
        if same:
            yield from _compare(one, same)
        damage = find_damage(one)
        if damage:
            yield Outdated(one.module, "damaged", damage, f"hpcmod update {one.module}")
        if one.record.get("hpcmod") != version:
            found = f"its scripts were written by hpcmod {one.record.get('hpcmod', '?')}; this is {version}"
            yield Outdated(one.module, "scripts", found, f"hpcmod update {one.module}")
        yield from _find_newer(one, listed)


def find_changed_in_registry(
    installed: Iterable[Installed], ask: Callable[[ImageReference], NewerImage], *, tell: Callable[[str], None]
) -> Iterator[Outdated]:
    """Compare the images of installations with what their registries have now.

    Parameters
    ----------
    ask
        Returns what a registry has instead of an image.
    tell
        Called with a line about each registry that does not answer.
    """
    for one in installed:
        known = one.record.get("provenance")
        reference = _in_registry(known if isinstance(known, dict) else {})
        if reference is None:
            continue
        try:
            found = ask(reference)
        except HpcmodError as err:
            tell(f"{one.module}: {err.message}")
            continue
        place = f"{reference.kind}://{reference.registry}/{reference.repository}"
        if found.digest != reference.digest:
            now = f"means another image now: {found.digest}" if found.digest else "is gone from the registry"
            yield Outdated(one.module, "tag", f"the tag {reference.tag} {now}", f"hpcmod search {place}")
        if found.tags:
            newer = ", ".join(found.tags[:_MOST_NAMED])
            yield Outdated(one.module, "newer", f"newer in the registry: {newer}", f"hpcmod search {place}")


def _in_registry(known: Mapping[str, Any]) -> ImageReference | None:
    """Return the reference of an image that came from a registry by its tag, with the digest it had then."""
    try:
        reference = ImageReference.parse(str(known.get("reference", "")))
    except HpcmodError:
        return None
    digest = reference.digest or str(known.get("digest", ""))
    return replace(reference, digest=digest) if reference.registry and reference.tag and digest else None


def _compare(one: Installed, same: IndexEntry) -> Iterator[Outdated]:
    if same.state != "published":
        until = f" until {same.until}" if same.until else ""
        cure = f"hpcmod install {same.successor}" if same.successor else "hpcmod ls"
        yield Outdated(one.module, "state", f"{same.state}{until}", cure)
    if one.of_image("sha256") not in ("", same.sha256) and same.state != "retired":
        yield Outdated(one.module, "image", "another image is published under this name", f"hpcmod update {one.module}")


def _find_newer(one: Installed, listed: Sequence[IndexEntry]) -> Iterator[Outdated]:
    meant = choose_entry([entry for entry in listed if entry.state == "published"], one.name)
    if meant and release_key(meant.version) > release_key(one.version):
        yield Outdated(one.module, "version", f"{meant.module} is published", f"hpcmod install {meant.module}")
