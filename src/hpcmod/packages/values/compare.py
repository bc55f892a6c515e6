"""Compare two states of a set, or a state with the image that it will be rebuilt for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Union

from hpcmod.core.errors import VerificationError
from hpcmod.packages.values.conda import CondaPackage, CondaPart
from hpcmod.packages.values.plan import PackageTarget
from hpcmod.packages.values.requirement import name_of, normalize_package
from hpcmod.packages.values.state import Locked, State

SAME, CHANGED, ADDED, REMOVED, IN_IMAGE, GONE, CONFLICT = (
    "same", "changed", "added", "removed", "in the image", "gone", "conflict",
)  # fmt: skip


Packages = Union[Sequence[Locked], Sequence[CondaPackage]]


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


def compare_packages(before: Packages, after: Packages, detail: str = "") -> Iterator[PackageDifference]:
    """Yield a difference for each package of two states, sorted by name; another build of conda is a change, too."""
    old, new = ({package.name: package for package in packages} for packages in (before, after))
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        if not (was and now):
            verdict = REMOVED if was else ADDED
            yield PackageDifference(name, verdict, was.version if was else "", now.version if now else "", detail)
        elif was.version != now.version:
            yield PackageDifference(name, CHANGED, was.version, now.version, detail)
        elif was.pin != now.pin:
            old_build, new_build = (package.pin.partition("==")[2] for package in (was, now))
            yield PackageDifference(name, CHANGED, old_build, new_build, detail)
        else:
            yield PackageDifference(name, SAME, was.version, now.version, detail)


def compare_with_image(
    before: State, locked: Sequence[Locked], conda: CondaPart, target: PackageTarget
) -> Iterator[PackageDifference]:
    """Yield what becomes of each package of a state on another image, sorted by name, those of conda first."""
    of_conda = compare_packages(before.conda.packages, conda.packages, "conda")
    in_conda = dict.fromkeys(conda.names, "")
    yield from _find_inside(of_conda, before.conda.names, in_conda.get)
    inside = {normalize_package(package.name): package.version for package in reversed(target.packages)}
    yield from _find_inside(compare_packages(before.locked, locked), before.names, inside.get)


def find_replaced(
    active: State | None, locked: Sequence[Locked], conda: CondaPart, known: Sequence[PackageDifference]
) -> list[PackageDifference]:
    """Return the packages of the active state that a new one does not have, except those that are known."""
    names = {change.name for change in known}
    pairs = ((active.conda.packages, conda.packages), (active.locked, locked)) if active else ()
    changes = [change for before, after in pairs for change in compare_packages(before, after)]
    removed = (change for change in changes if change.verdict == REMOVED and change.name not in names)
    return [replace(change, detail="of the packages that are active now") for change in removed]


def _find_inside(
    changes: Iterable[PackageDifference], requested: Set[str], version_inside: Callable[[str], str | None]
) -> Iterator[PackageDifference]:
    """Yield differences, with those of removed packages that the image has, or that nothing needs any more."""
    for change in changes:
        inside = version_inside(change.name) if change.verdict == REMOVED else None
        if inside is not None:
            yield replace(change, verdict=IN_IMAGE, after=inside)
        elif change.verdict == REMOVED and change.name not in requested:
            yield replace(change, detail="; ".join(filter(None, [change.detail, "no longer needed"])))
        else:
            yield change


def check_unchanged(old: Packages, new: Packages, origin: str) -> None:
    """Check that no file has other content than before, which an index or a channel should never serve.

    Files are compared by name: another Python or platform gets another wheel of the same version.

    Raises VerificationError if one has.
    """
    known = {(package.pin, package.url.rpartition("/")[2]): package.sha256 for package in old if package.sha256}
    lines = []
    for package in new:
        before = known.get((package.pin, package.url.rpartition("/")[2]))
        if before and package.sha256 and before != package.sha256:
            lines.append(f"  {package.pin}: expected sha256 {before}, got {package.sha256} from {package.url}")
    if lines:
        raise VerificationError(
            "\n".join([f"the {origin} serves other files than when you added these packages:", *lines]),
            "Do not use them before you know why. To accept them: hpcmod drop them, and add them again.",
        )


def find_in_image(requirements: Sequence[str], locked: Sequence[Locked], target: PackageTarget) -> tuple[str, ...]:
    """Return the required packages that the image already has, as name==version."""
    installed = {package.name for package in locked}
    names = [name for line in requirements if (name := name_of(line)) and name not in installed]
    packages = (target.find(name) for name in names)
    return tuple(f"{package.name}=={package.version}" for package in packages if package)
