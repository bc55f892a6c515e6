"""Explain bind paths on this machine: which are used and which are not, why, and where they come from."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hpcmod.machine.values.bind import KERNEL, ON_HOST, Bind, can_be_bound, parse_elements, version_key
from hpcmod.machine.values.tables import Binds

VARIABLES = ("SINGULARITY_BIND", "APPTAINER_BIND", "SINGULARITY_BINDPATH", "APPTAINER_BINDPATH")

OWN_TREES = ("", "usr", "bin", "sbin", "lib", "lib64", "etc", "dev", "proc", "sys")
"""Path prefix of the image's own files, in which no links are followed; empty means the root itself."""


class BindFinding(NamedTuple):
    """Result for one bind path."""

    bind: Bind
    """With the source that was found, or as requested if nothing was found."""
    kept: bool
    why: str
    asked: str
    """As written in the profile, or in the variable."""

    @property
    def missing(self) -> bool:
        """Return whether a job will lack this path."""
        return self.bind.required and not self.kept


def explain_binds(groups: Binds, environ: Mapping[str, str]) -> list[BindFinding]:
    """Decide about each candidate as a module and its wrappers do, including the user's own binds in `environ`."""
    kernel = os.uname().release
    users = list(_users_binds(groups, environ, kernel))
    taken = {_trimmed(finding.bind.place): finding.bind.origin for finding in users}
    findings = [finding for group in groups for finding in _explain_group(group, taken, kernel)]
    return [*_follow_links(findings, taken), *findings, *users]


def _users_binds(groups: Binds, environ: Mapping[str, str], kernel: str) -> Iterator[BindFinding]:
    """Yield what the bind variables contain besides the candidates, each destination once.

    A loaded module has added its own directories, below $CONTAINERROOT, and the trees that links point into.
    """
    candidates = [bind for group in groups for bind in group]
    trees = {os.path.realpath(bind.source) for bind in candidates if not bind.destination}
    root = environ.get("CONTAINERROOT", "")
    seen: set[str] = set()
    for name in VARIABLES:
        for bind in parse_elements(environ.get(name, ""), origin=f"${name}"):
            known = bind.source in trees and not bind.destination
            if known or _trimmed(bind.place) in seen or any(each.stands_for(bind, kernel) for each in candidates):
                continue
            seen.add(_trimmed(bind.place))
            absent = _absence(bind.source)
            lost = f"{absent}: the runtime would not start, so wrappers omit it"
            whose = "of the loaded module" if root and bind.source.startswith(f"{root}/") else "yours"
            yield BindFinding(bind, not absent, lost if absent else whose, str(bind))


def _trimmed(place: str) -> str:
    return place.rstrip("/") or "/"


def _absence(path: str) -> str:
    """Return why a path cannot be bound; empty if it can."""
    place = Path(path)
    if place.exists():
        return "" if can_be_bound(path) else "its name is not valid in a bind path"
    return f"a link to {place.readlink()}, which does not exist" if place.is_symlink() else "does not exist here"


def _explain_group(group: Iterable[Bind], taken: dict[str, str], kernel: str) -> Iterator[BindFinding]:
    done = ""
    for candidate in group:
        bind, why = _resolve(candidate, kernel)
        place = _trimmed(bind.place)
        if done:
            yield BindFinding(bind, False, f"not needed, because {done} exists", str(candidate))
        elif why:
            yield BindFinding(bind, False, why, str(candidate))
        else:
            done = bind.source
            other = taken.setdefault(place, bind.origin or "the module")
            mine = other.startswith("$")
            why = f"{other} binds something else to {place}" if mine else _found(candidate, bind, kernel)
            yield BindFinding(bind, not mine, why, str(candidate))


def _resolve(candidate: Bind, kernel: str) -> tuple[Bind, str]:
    """Return a bind with its pattern replaced by the newest match, and why it cannot be bound; empty if it can."""
    if not candidate.pattern:
        return candidate, _absence(candidate.source)
    fits = _fits(candidate, kernel)
    if not fits:
        return candidate, "nothing here matches the pattern"
    return replace(candidate, source=fits[0], pattern=False), _absence(fits[0])


def _fits(candidate: Bind, kernel: str) -> list[str]:
    """Return the existing paths that match a pattern, the newest first."""
    return _existing(candidate.source.replace(KERNEL, kernel))


def _existing(pattern: str) -> list[str]:
    paths = glob.glob(re.sub(r"\[", "[[]", pattern))  # noqa: PTH207 - Path.glob only works relative to a directory
    return sorted((path for path in paths if Path(path).exists()), key=_preference, reverse=True)


def _preference(path: str) -> tuple[bool, str]:
    """Return the sort key that puts the best last: captured libraries whose original this node has, then the newest."""
    return Path(path, ON_HOST).exists(), version_key(path)


def find_newest_path(pattern: str) -> str:
    """Return the newest path that matches a pattern, in which only `*` and `?` are special; empty if none does."""
    return next(iter(_existing(pattern.replace(KERNEL, os.uname().release))), "")


def _found(candidate: Bind, bind: Bind, kernel: str) -> str:
    if not candidate.pattern:
        return "exists"
    fits = len(_fits(candidate, kernel))
    return f"the newest of {fits} that match {candidate.source}" if fits > 1 else f"matches {candidate.source}"


def _follow_links(found: Iterable[BindFinding], taken: dict[str, str]) -> Iterator[BindFinding]:
    """Yield the trees that the sources in use are links into, unless they are bound anyway."""
    for finding in found:
        source = finding.bind.source
        if not finding.kept or finding.bind.destination or not Path(source).is_dir():
            continue
        place = os.path.realpath(source)
        parents = {place[:end] for end in range(1, len(place) + 1) if place[end : end + 1] in ("/", "")}
        if place.split("/")[1] in OWN_TREES or parents & taken.keys():
            continue
        taken[place] = finding.bind.origin
        bind = Bind(place, origin=finding.bind.origin)
        yield BindFinding(bind, can_be_bound(place), f"{source} is a link into it", finding.asked)
