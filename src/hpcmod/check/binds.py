"""Look at bind paths on this machine: which are kept and which dropped, why, and who asked for them."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.model.bind import KERNEL, Bind, can_be_bound, parse_elements, version_key
from hpcmod.model.libraries.netstack import ON_HOST
from hpcmod.model.site import Binds

VARIABLES = ("SINGULARITY_BIND", "APPTAINER_BIND", "SINGULARITY_BINDPATH", "APPTAINER_BINDPATH")

OWN_TREES = ("", "usr", "bin", "sbin", "lib", "lib64", "etc", "dev", "proc", "sys")
"""What lies there is the image's own, so no link is followed into it; empty: the root itself."""


@dataclass(frozen=True)
class BindFinding:
    """One bind path looked at."""

    bind: Bind
    """With the source as it was found; as it was asked for where nothing was found."""
    kept: bool
    why: str
    asked: str
    """As it stands in the profile, or in the variable."""

    @property
    def missing(self) -> bool:
        """Whether a job will lack something."""
        return self.bind.required and not self.kept


def explain_binds(groups: Binds, environ: Mapping[str, str]) -> list[BindFinding]:
    """Decide about each candidate as a module and its wrappers do, the user's own binds in `environ` among them."""
    kernel = os.uname().release
    users = list(_users_binds(groups, environ, kernel))
    taken = {_trimmed(one.bind.place): one.bind.origin for one in users}
    found = [finding for group in groups for finding in _explain_group(group, taken, kernel)]
    return [*_follow_links(found, taken), *found, *users]


def _users_binds(groups: Binds, environ: Mapping[str, str], kernel: str) -> Iterator[BindFinding]:
    """Yield what the bind variables hold besides the candidates, each destination once.

    A module that is loaded has put there its own directories, below $CONTAINERROOT, and the trees that links lead into.
    """
    candidates = [bind for group in groups for bind in group]
    trees = {os.path.realpath(bind.source) for bind in candidates if not bind.destination}
    root = environ.get("CONTAINERROOT", "")
    seen: set[str] = set()
    for name in VARIABLES:
        for bind in parse_elements(environ.get(name, ""), origin=f"${name}"):
            known = bind.source in trees and not bind.destination
            if known or _trimmed(bind.place) in seen or any(one.stands_for(bind, kernel) for one in candidates):
                continue
            seen.add(_trimmed(bind.place))
            absent = _absence(bind.source)
            lost = f"{absent}: the runtime would not start; wrappers leave it out"
            whose = "of the loaded module" if root and bind.source.startswith(f"{root}/") else "yours"
            yield BindFinding(bind, not absent, lost if absent else whose, str(bind))


def _trimmed(place: str) -> str:
    return place.rstrip("/") or "/"


def _absence(path: str) -> str:
    """Return why there is nothing to bind; empty if there is."""
    place = Path(path)
    if place.exists():
        return "" if can_be_bound(path) else "no bind can hold such a name"
    return f"a link to {place.readlink()}, which does not exist" if place.is_symlink() else "does not exist here"


def _explain_group(group: Iterable[Bind], taken: dict[str, str], kernel: str) -> Iterator[BindFinding]:
    done = ""
    for candidate in group:
        bind, why = _resolve(candidate, kernel)
        place = _trimmed(bind.place)
        if done:
            yield BindFinding(bind, False, f"not needed, as {done} is there", str(candidate))
        elif why:
            yield BindFinding(bind, False, why, str(candidate))
        else:
            done = bind.source
            other = taken.setdefault(place, bind.origin or "the module")
            mine = other.startswith("$")
            why = f"{other} binds something else to {place}" if mine else _found(candidate, bind, kernel)
            yield BindFinding(bind, not mine, why, str(candidate))


def _resolve(candidate: Bind, kernel: str) -> tuple[Bind, str]:
    """Put what exists and is newest in the place of a pattern; say why there is nothing to bind, if there is not."""
    if not candidate.pattern:
        return candidate, _absence(candidate.source)
    fits = _fits(candidate, kernel)
    if not fits:
        return candidate, "nothing here fits the pattern"
    return replace(candidate, source=fits[0], pattern=False), _absence(fits[0])


def _fits(candidate: Bind, kernel: str) -> list[str]:
    """Find what exists of a pattern, the newest first."""
    return _existing(candidate.source.replace(KERNEL, kernel))


def _existing(pattern: str) -> list[str]:
    found = glob.glob(re.sub(r"\[", "[[]", pattern))  # noqa: PTH207 - Path.glob is for what is relative to a directory
    return sorted((path for path in found if Path(path).exists()), key=_preference, reverse=True)


def _preference(path: str) -> tuple[bool, str]:
    """Return what sorts the best last: captured libraries whose original this node has, then the newest."""
    return Path(path, ON_HOST).exists(), version_key(path)


def find_newest(pattern: str) -> str:
    """Find the newest path that fits a pattern, in which `*` and `?` alone are special; empty: there is none."""
    return next(iter(_existing(pattern.replace(KERNEL, os.uname().release))), "")


def _found(candidate: Bind, bind: Bind, kernel: str) -> str:
    if not candidate.pattern:
        return "exists"
    fits = len(_fits(candidate, kernel))
    return f"the newest of {fits} that fit {candidate.source}" if fits > 1 else f"fits {candidate.source}"


def _follow_links(found: Iterable[BindFinding], taken: dict[str, str]) -> Iterator[BindFinding]:
    """Yield the trees that kept sources are links into, unless they are bound anyway."""
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
