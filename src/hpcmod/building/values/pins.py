"""The lock file of recipes: the checksum of each file by name and version, one file per line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError

KINDS = ("source", "wheel", "base")
"""source: an upstream release archive; wheel: files that pip installs, including source archives; base: an image."""

_LINE = re.compile(r"(?P<kind>\S+) (?P<name>\S+) (?P<version>\S+) (?P<sha256>[0-9a-f]{64}) (?P<origin>\S+)")


@dataclass(frozen=True)
class Pin:
    """One line: the checksum of a file."""

    kind: str
    """One of KINDS."""
    name: str
    version: str
    sha256: str
    """64 hexadecimal digits."""
    origin: str
    """Address of a source, file name of a wheel, `tag` for a base: distinguishes several files of one version."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.version} {self.sha256} {self.origin}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return the file's identity: a lock has one line for each."""
        return self.kind, self.name, self.version, self.origin if self.kind == "wheel" else ""


def parse_lock(text: str, source: str) -> tuple[Pin, ...]:
    """Parse a lock file; empty lines and lines that begin with # are ignored.

    Raises BadInputError, which lists every invalid line, and every file with two checksums.
    """
    pins: dict[tuple[str, str, str, str], Pin] = {}
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or match["kind"] not in KINDS:
            faults.append(f"  {source}:{number}: expected KIND NAME VERSION SHA256 ORIGIN, found {line.strip()!r}")
            continue
        pin = Pin(**match.groupdict())
        if pins.setdefault(pin.key, pin).sha256 != pin.sha256:
            faults.append(f"  {source}:{number}: {pin.name} {pin.version} has a different checksum in an earlier line")
    if faults:
        raise BadInputError("\n".join(["lock file of recipes:", *faults]), "Fix or remove these lines.")
    return tuple(pins.values())


def merge_pins(first: Iterable[Pin], then: Iterable[Pin]) -> tuple[Pin, ...]:
    """Merge two locks; where they disagree, the first wins."""
    return tuple({pin.key: pin for pin in (*then, *first)}.values())


def find_checksum(pins: Iterable[Pin], kind: str, name: str, version: str) -> str:
    """Return the sha256 of a source or a base; empty if not in the lock."""
    checksums = (pin.sha256 for pin in pins if (pin.kind, pin.name, pin.version) == (kind, name, version))
    return next(checksums, "")


def new_pins(used: Iterable[Pin], known: Iterable[Pin]) -> tuple[Pin, ...]:
    """Return the pins that a build used and the lock lacks: the lines to add, sorted."""
    keys = {pin.key for pin in known}
    return tuple(sorted({pin for pin in used if pin.key not in keys}, key=str))
