"""Version ranges of a Python package, as written in an advisory: `torch<2.6`, `numpy>=1.20,<1.22`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hpcmod.core.values.facts import Package, comparable_name

_RANGE = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*((?:(?:>=|<=|==|>|<).*)?)")
_BOUND = re.compile(r"\s*(>=|<=|==|>|<)\s*([0-9][A-Za-z0-9.!+_-]*)\s*")
_VERSION = re.compile(r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)[-_.]?(a|b|rc|alpha|beta|c|pre|preview)?[-_.]?(\d*)(.*)")
_BEFORE = {"a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "c": -1, "pre": -1, "preview": -1}


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
            _holds(package.version, operator, limit) for operator, limit in self.bounds
        )


def parse_range(text: str) -> PackageRange:
    """Parse a package name with its version bounds.

    Raises
    ------
    ValueError
        If the text does not have that form.
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


def _holds(version: str, operator: str, limit: str) -> bool:
    ours, theirs = _key(version), _key(limit)
    return {
        ">=": ours >= theirs,
        "<=": ours <= theirs,
        "==": ours == theirs,
        ">": ours > theirs,
        "<": ours < theirs,
    }[operator]


def _key(version: str) -> tuple[int, tuple[int, ...], int, int, int, int]:
    """Return a PEP 440 sort key of a version; the local part after `+`, set by the builder, is ignored."""
    match = _VERSION.fullmatch(version.strip().lower().partition("+")[0])
    if match is None:
        return 0, (), 0, 0, 0, 0
    numbers = tuple(map(int, match[2].split(".")))
    while numbers[-1:] == (0,):
        numbers = numbers[:-1]
    word, number, rest = match[3] or "", match[4] or "", match[5] or ""
    named = re.search(r"(?:post|rev|r)[-_.]?(\d*)", rest)
    post = int(named[1] or 0) + 1 if named else int(number) + 1 if number and not word else 0  # 1.0-1 is 1.0.post1
    dev = re.search(r"dev[-_.]?(\d*)", rest)
    before = -4 if dev and not word and not post else _BEFORE.get(word, 0)
    development = int(dev[1] or 0) if dev else 1 << 62  # comes before the version without it
    return int(match[1] or 0), numbers, before, int(number or 0) if word else 0, post, development
