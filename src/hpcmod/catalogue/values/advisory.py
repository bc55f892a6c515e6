"""Advisories: dated, known problems, the images, hosts and environments they affect, and how to work around them."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hpcmod.catalogue.values.package_range import PackageRange, has_any
from hpcmod.core.values.facts import Package
from hpcmod.core.values.json_form import TABLE
from hpcmod.machine.values.condition import Bound

VERSION = "{version}"
"""Placeholder in a path for the version in a file's name."""

MOST_STARS = 3
"""Maximum number of `*` in a pattern, so that matching stays fast when a module loads."""

_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_SECONDS_OF_A_DAY = 86400


@dataclass(frozen=True)
class HostFact:
    """Something on the host that an advisory depends on, e.g. a release of libfabric."""

    path: str
    """Absolute path; `*` and `?` are wildcards, VERSION matches the version. The newest match is used."""
    bounds: tuple[Bound, ...] = ()
    """Bounds that the version must all satisfy; if empty, the path only has to exist."""

    @property
    def pattern(self) -> str:
        """Return the path with a wildcard in place of the version."""
        return self.path.replace(VERSION, "*")

    def holds_for(self, found: str) -> bool:
        """Return whether the fact holds, given the newest path that matches the pattern (empty if none does)."""
        if not found or not self.bounds:
            return bool(found)
        place = next(i for i, part in enumerate(self.path.split("/")) if VERSION in part)
        number = re.search(r"\d+(?:\.\d+)*", found.split("/")[place]) if found.count("/") >= place else None
        return bool(number) and all(
            bound.holds_for({bound.product: number[0] if number else ""}) for bound in self.bounds
        )


@dataclass(frozen=True)
class Advisory:
    """One known problem. Quote its text before showing it."""

    name: str
    """The file's name without `.toml`."""
    title: str
    text: str
    source: str
    """Where the problem is discussed: an https address."""
    issued: str
    """Day, YYYY-MM-DD."""
    expires: str
    """Last day on which the advisory is shown, YYYY-MM-DD, UTC."""
    digests: tuple[str, ...] = ()
    """sha256 of the affected SIFs, 64 hexadecimal digits each; if this and `modules` are empty, all images."""
    modules: tuple[str, ...] = ()
    """Names of the affected modules; `*` and `?` are wildcards."""
    packages: tuple[PackageRange, ...] = ()
    """Affected Python packages in images, with their versions."""
    host: tuple[HostFact, ...] = ()
    """Facts that must all hold on the node where the module is loaded."""
    environment: tuple[tuple[str, str | None], ...] = field(default=(), metadata=TABLE)
    """Variables and the value each must have (`*` and `?` are wildcards); None: it must not be set."""
    unset: tuple[str, ...] = ()
    """Variables to unset as a workaround."""
    set: tuple[tuple[str, str], ...] = field(default=(), metadata=TABLE)
    """Variables to set as a workaround, with their values."""

    @property
    def until(self) -> int:
        """Return the time after which the advisory is no longer shown, in seconds since 1970."""
        return seconds_of(self.expires) + _SECONDS_OF_A_DAY

    @property
    def for_all(self) -> bool:
        """Return whether every image is affected."""
        return not self.digests and not self.modules and not self.packages

    def concerns(self, module: str, sha256: str, packages: Sequence[Package] = ()) -> bool:
        """Return whether an image is affected: by its digest, its module name, or a package in it."""
        named = sha256 in self.digests or any(fits(module, pattern) for pattern in self.modules)
        return self.for_all or named or has_any(packages, self.packages)

    def holds_in(self, environ: Mapping[str, str], newest: Callable[[str], str], *, now: float) -> bool:
        """Return whether the advisory applies on this host, in this environment and at this time.

        `newest`: Returns the newest path that matches a pattern, or an empty string.
        `now`: Seconds since 1970.
        """
        return (
            now < self.until
            and all(_is(environ.get(name), pattern) for name, pattern in self.environment)
            and all(fact.holds_for(newest(fact.pattern)) for fact in self.host)
        )


def _is(value: str | None, pattern: str | None) -> bool:
    return value is None if pattern is None else value is not None and fits(value, pattern)


def fits(text: str, pattern: str) -> bool:
    """Return whether a string matches a pattern in which only `*` and `?` are special."""
    parts = ("".join({"*": ".*", "?": "."}.get(char, re.escape(char))) for char in pattern)
    return bool(re.fullmatch("".join(parts), text, re.DOTALL))


def seconds_of(day: str) -> int:
    """Return the start of a day (UTC) in seconds since 1970."""
    match = _DAY.fullmatch(day)
    year, month, date = map(int, match.groups()) if match else (0, 0, 0)
    if year < 1970 or not 1 <= month <= 12 or not 1 <= date <= calendar.monthrange(year, month)[1]:
        raise ValueError(f"must be a date such as 2027-03-01, found {day!r}")
    return calendar.timegm((year, month, date, 0, 0, 0))
