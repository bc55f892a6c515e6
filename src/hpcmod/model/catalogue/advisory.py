"""An advisory: a dated, known problem; which images, hosts and environments it is about, and what helps."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hpcmod.model.catalogue.package_range import PackageRange, has_any
from hpcmod.model.condition import Bound
from hpcmod.model.facts import Package

VERSION = "{version}"
"""Stands in a path for the version of what lies there."""

MOST_STARS = 3
"""`*` in a pattern, lest a module take its time to load."""

_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_SECONDS_OF_A_DAY = 86400


@dataclass(frozen=True)
class HostFact:
    """Something on the host that an advisory is about, e.g. a release of libfabric."""

    path: str
    """Absolute; `*` and `?` stand for what there is, VERSION for its version. The newest that exists counts."""
    bounds: tuple[Bound, ...] = ()
    """All must hold for its version; none: it must exist."""

    @property
    def pattern(self) -> str:
        """The path with a wildcard for the version."""
        return self.path.replace(VERSION, "*")

    def holds_for(self, found: str) -> bool:
        """Return whether it holds, given the newest path that fits the pattern; empty: there is none."""
        if not found or not self.bounds:
            return bool(found)
        place = next(i for i, part in enumerate(self.path.split("/")) if VERSION in part)
        number = re.search(r"\d+(?:\.\d+)*", found.split("/")[place]) if found.count("/") >= place else None
        return bool(number) and all(
            bound.holds_for({bound.product: number[0] if number else ""}) for bound in self.bounds
        )


@dataclass(frozen=True)
class Advisory:
    """One known problem. Its texts are shown only through a quoting function."""

    name: str
    """Of its file, without `.toml`."""
    title: str
    text: str
    source: str
    """Where it is discussed: an https address."""
    issued: str
    """Day, YYYY-MM-DD."""
    expires: str
    """Last day on which it is shown, YYYY-MM-DD, UTC."""
    digests: tuple[str, ...] = ()
    """sha256 of the SIFs it is about, 64 hexadecimal digits each; with `modules` empty as well: all."""
    modules: tuple[str, ...] = ()
    """Module names it is about, with `*` and `?`."""
    packages: tuple[PackageRange, ...] = ()
    """Python packages in the images it is about, with their versions."""
    host: tuple[HostFact, ...] = ()
    """All must hold on the node where the module is loaded."""
    environment: tuple[tuple[str, str | None], ...] = ()
    """Variables, and what each must be, with `*` and `?`; None: it must not be set."""
    unset: tuple[str, ...] = ()
    """Variables to take away: the cure."""
    set: tuple[tuple[str, str], ...] = ()
    """Variables to give a value."""

    @property
    def until(self) -> int:
        """Seconds since 1970 from which on it is silent."""
        return seconds_of(self.expires) + _SECONDS_OF_A_DAY

    @property
    def for_all(self) -> bool:
        """Whether it is about every image."""
        return not self.digests and not self.modules and not self.packages

    def concerns(self, module: str, sha256: str, packages: Sequence[Package] = ()) -> bool:
        """Return whether it is about an image: by its digest, its module, or a package in it."""
        named = sha256 in self.digests or any(fits(module, pattern) for pattern in self.modules)
        return self.for_all or named or has_any(packages, self.packages)

    def holds_in(self, environ: Mapping[str, str], newest: Callable[[str], str], *, now: float) -> bool:
        """Return whether it holds here and now.

        Parameters
        ----------
        newest
            Gives the newest path that fits a pattern, or an empty text.
        now
            Seconds since 1970.
        """
        return (
            now < self.until
            and all(_is(environ.get(name), wanted) for name, wanted in self.environment)
            and all(fact.holds_for(newest(fact.pattern)) for fact in self.host)
        )


def _is(value: str | None, wanted: str | None) -> bool:
    return value is None if wanted is None else value is not None and fits(value, wanted)


def fits(text: str, pattern: str) -> bool:
    """Return whether a text is what a pattern says, in which `*` and `?` alone are special."""
    parts = ("".join({"*": ".*", "?": "."}.get(char, re.escape(char))) for char in pattern)
    return bool(re.fullmatch("".join(parts), text, re.DOTALL))


def seconds_of(day: str) -> int:
    """Seconds from 1970 to the beginning of a day, UTC."""
    found = _DAY.fullmatch(day)
    numbers = tuple(map(int, found.groups())) if found else (0, 0, 0)
    year, month, date = numbers
    if year < 1970 or not 1 <= month <= 12 or not 1 <= date <= calendar.monthrange(year, month)[1]:
        raise ValueError(f"must be a day, as 2027-03-01, found {day!r}")
    return calendar.timegm((year, month, date, 0, 0, 0))
