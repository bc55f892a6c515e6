"""The changes that a user made to an edited state: packages and requirements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcmod.packages.values.plan import PackageTarget
from hpcmod.packages.values.requirement import name_of, normalize_package
from hpcmod.packages.values.sources import DirectUrl, Editable, PipMetadata, find_editable
from hpcmod.packages.values.state import Locked, State


@dataclass(frozen=True)
class Edited:
    """The packages of a state that was edited."""

    locked: tuple[Locked, ...]
    """All installed packages, sorted by name."""
    requirements: tuple[str, ...]
    """Requirements that the user added while editing."""
    dropped: tuple[str, ...]
    """Required packages that the user removed."""
    replaced: tuple[str, ...]
    """Packages of the image that have another version now."""
    editable: tuple[Editable, ...]


def describe_edited(found: Sequence[PipMetadata], base: State | None, target: PackageTarget, now: str) -> Edited:
    """Compare the packages of an edited state with the state that it started from.

    `base`: State that it started from; None if it started without packages.
    `now`: Time recorded for packages that the base does not have.
    """
    locked, lines = [], []
    for package in found:
        name, direct = normalize_package(package.name), DirectUrl.parse(package.direct_url)
        before = base.find(name) if base else None
        if before and before.version == package.version and direct.url in ("", before.url):
            locked.append(before)
        else:
            locked.append(Locked(name, package.version, direct.sha256, direct.url, since=now))
            is_known = base is not None and name in base.names
            if package.is_requested or is_known:
                lines.append(f"{name} @ {direct.requirement}" if direct.url and not direct.is_here else name)
    names = {package.name for package in locked}
    asked = base.names if base else frozenset[str]()
    return Edited(
        locked=tuple(sorted(locked, key=lambda package: package.name)),
        requirements=tuple(sorted(lines, key=name_of)),
        dropped=tuple(sorted(name for name in asked - names if base and base.find(name))),
        replaced=tuple(sorted({package.name for package in locked if _is_replaced(package, target)})),
        editable=tuple(filter(None, (find_editable(package.name, package.direct_url) for package in found))),
    )


def _is_replaced(package: Locked, target: PackageTarget) -> bool:
    inside = target.find(package.name)
    return inside is not None and package.version != inside.version
