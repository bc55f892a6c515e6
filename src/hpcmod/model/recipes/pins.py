"""The lock file of recipes: which checksum a file of a name and version has, one line a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hpcmod.errors import BadInputError

KINDS = ("source", "wheel", "base")
"""source: an archive of an upstream release; wheel: what pip takes, wheels and archives alike; base: an image."""

_LINE = re.compile(r"(?P<kind>\S+) (?P<name>\S+) (?P<version>\S+) (?P<sha256>[0-9a-f]{64}) (?P<origin>\S+)")


@dataclass(frozen=True)
class Pin:
    """One line: what a file must be."""

    kind: str
    """One of KINDS."""
    name: str
    version: str
    sha256: str
    """64 hexadecimal digits."""
    origin: str
    """Address of a source, file name of a wheel, `tag` of a base: what tells several files of a version apart."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.version} {self.sha256} {self.origin}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names the file: a lock has one line for each."""
        return self.kind, self.name, self.version, self.origin if self.kind == "wheel" else ""


def parse_lock(text: str, source: str) -> tuple[Pin, ...]:
    """Parse a lock file; lines that begin with # and empty lines count for nothing.

    Raises
    ------
    BadInputError
        With every line that is none, and every file that has two checksums.
    """
    pins: dict[tuple[str, str, str, str], Pin] = {}
    faults = []
    for number, line in _lines(text):
        found = _LINE.fullmatch(line)
        if found is None or found["kind"] not in KINDS:
            faults.append(f"  {source}:{number}: expected KIND NAME VERSION SHA256 ORIGIN, found {line!r}")
            continue
        pin = Pin(**found.groupdict())
        if pins.setdefault(pin.key, pin).sha256 != pin.sha256:
            faults.append(f"  {source}:{number}: {pin.name} {pin.version} has another checksum further up")
    if faults:
        raise BadInputError("\n".join(["lock file of recipes:", *faults]), "Fix or remove these lines.")
    return tuple(pins.values())


def merge_pins(first: Iterable[Pin], then: Iterable[Pin]) -> tuple[Pin, ...]:
    """Put two locks together; what the first one says counts."""
    merged: dict[tuple[str, str, str, str], Pin] = {}
    for pin in (*first, *then):
        merged.setdefault(pin.key, pin)
    return tuple(merged.values())


def find_checksum(pins: Iterable[Pin], kind: str, name: str, version: str) -> str:
    """Return the sha256 of a source or a base; empty if the lock does not know it."""
    found = (pin.sha256 for pin in pins if (pin.kind, pin.name, pin.version) == (kind, name, version))
    return next(found, "")


def new_pins(used: Iterable[Pin], known: Iterable[Pin]) -> tuple[Pin, ...]:
    """Return what a build used and the lock does not know: the lines to be added, sorted."""
    keys = {pin.key for pin in known}
    return tuple(sorted({pin for pin in used if pin.key not in keys}, key=str))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()
