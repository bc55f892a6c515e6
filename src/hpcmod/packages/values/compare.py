"""Compare two states of a set, or a state with the image that it will be rebuilt for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hpcmod.packages.values.conda import CondaPart
from hpcmod.packages.values.plan import PackageTarget
from hpcmod.packages.values.requirement import name_of
from hpcmod.packages.values.state import Locked, State

SAME, CHANGED, ADDED, REMOVED, IN_IMAGE, GONE, CONFLICT = (
    "same", "changed", "added", "removed", "in the image", "gone", "conflict",
)  # fmt: skip


@dataclass(frozen=True)
class PackageDifference:
    """What becomes of one package."""

    name: str
    verdict: str
    before: str = ""
    """Version; empty if it was not installed."""
    after: str = ""
    detail: str = ""

    def __str__(self) -> str:
        """Return one line for people."""
        versions = " -> ".join(filter(None, dict.fromkeys([self.before, self.after])))
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.name}: {' '.join(filter(None, [self.verdict, versions]))}{detail}"


def compare_locked(before: Sequence[Locked], after: Sequence[Locked]) -> Iterator[PackageDifference]:
    """Yield a difference for each package of two states, sorted by name."""
    old, new = ({package.name: package.version for package in packages} for packages in (before, after))
    for name in sorted({*old, *new}):
        yield _compare(name, old.get(name, ""), new.get(name, ""))


def compare_conda(before: CondaPart, after: CondaPart) -> Iterator[PackageDifference]:
    """Yield a difference for each conda package of two states, sorted by name; another build is a change, too."""
    old, new = ({package.name: package for package in part.packages} for part in (before, after))
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        if was and now and was.version == now.version and was.build != now.build:
            yield PackageDifference(name, CHANGED, f"{was.version} {was.build}", f"{now.version} {now.build}", "conda")
        else:
            yield replace(_compare(name, was.version if was else "", now.version if now else ""), detail="conda")


def _compare(name: str, before: str, after: str) -> PackageDifference:
    """Return the difference between two versions of a package; an empty one means that it is not there."""
    if not (before and after):
        return PackageDifference(name, REMOVED if before else ADDED, before, after)
    return PackageDifference(name, SAME if before == after else CHANGED, before, after)


def compare_conda_with_image(before: CondaPart, after: CondaPart) -> Iterator[PackageDifference]:
    """Yield what becomes of each conda package of a state on another image, sorted by name."""
    for found in compare_conda(before, after):
        if found.verdict == REMOVED and found.name in after.names:
            yield replace(found, verdict=IN_IMAGE)
        elif found.verdict == REMOVED and found.name not in before.names:
            yield replace(found, detail="conda; no longer needed")
        else:
            yield found


def compare_with_image(before: State, after: Sequence[Locked], target: PackageTarget) -> Iterator[PackageDifference]:
    """Yield what becomes of each package of a state on another image, sorted by name."""
    for found in compare_locked(before.locked, after):
        inside = target.find(found.name) if found.verdict == REMOVED else None
        if inside:
            yield PackageDifference(found.name, IN_IMAGE, found.before, inside.version)
        elif found.verdict == REMOVED and found.name not in before.names:
            yield PackageDifference(found.name, REMOVED, found.before, detail="no longer needed")
        else:
            yield found


def find_in_image(requirements: Sequence[str], locked: Sequence[Locked], target: PackageTarget) -> tuple[str, ...]:
    """Return the required packages that the image already has, as name==version."""
    installed = {one.name for one in locked}
    names = [name for line in requirements if (name := name_of(line)) and name not in installed]
    found = (target.find(name) for name in names)
    return tuple(f"{one.name}=={one.version}" for one in found if one)
