"""Version ranges of a Python package, as written in an advisory: `torch<2.6`, `numpy>=1.20,<1.22`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from hpcmod.core.values.facts import Package, comparable_name

_RANGE = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*((?:(?:>=|<=|==|>|<).*)?)")
_BOUND = re.compile(r"\s*(>=|<=|==|>|<)\s*([0-9][A-Za-z0-9.!+_-]*)\s*")


@dataclass(frozen=True)
class PackageRange:
    """A range of versions of one package; without bounds, all versions."""

    name: str
    """Normalized name, as package indexes compare names (PEP 503)."""
    bounds: tuple[tuple[str, str], ...] = ()
    """Operators and versions; all must hold."""

    def has(self, package: Package) -> bool:
        """Return whether a package is in the range."""
        return comparable_name(package.name) == self.name and all(
            _holds(package.version, sign, limit) for sign, limit in self.bounds
        )


def parse_range(text: str) -> PackageRange:
    """Parse a package name with its version bounds.

    Raises ValueError if the text does not have that form.
    """
    match = _RANGE.fullmatch(text)
    words = match[2].split(",") if match and match[2] else []
    bounds = [_BOUND.fullmatch(word) for word in words]
    if match is None or not all(bounds):
        raise ValueError(f"must look like torch<2.6 or torch>=2.0,<2.6; found {text!r}")
    return PackageRange(comparable_name(match[1]), tuple((bound[1], bound[2]) for bound in bounds if bound))


def has_any(packages: Iterable[Package], ranges: Iterable[PackageRange]) -> bool:
    """Return whether any of the packages is in any of the ranges."""
    package_ranges = tuple(ranges)
    return bool(package_ranges) and any(
        package_range.has(package) for package in packages for package_range in package_ranges
    )


def _holds(version: str, sign: str, limit: str) -> bool:
    """Compare versions by PEP 440, without the local part after `+`, which the builder sets."""
    ours, theirs = _parse_version(version), _parse_version(limit)
    return (ours == theirs and "=" in sign) or (ours < theirs and "<" in sign) or (ours > theirs and ">" in sign)


def _parse_version(text: str) -> Version:
    """Return a version; of a text that is none, what its first numbers say, else the oldest."""
    try:
        return Version(text.partition("+")[0])
    except InvalidVersion:
        numbers = re.match(r"\s*v?(\d+(?:\.\d+)*)", text)
        return Version(numbers[1] if numbers else "0.dev0")
