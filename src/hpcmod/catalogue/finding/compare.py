"""Differences between two containers: packages, environment, base stack, commands and size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.core.values.facts import comparable_name


@dataclass(frozen=True)
class ContainerDifference:
    """A difference between two containers."""

    kind: str
    """package, variable, stack, command, or image."""
    name: str
    before: str | None
    """Value in the first; None if absent."""
    after: str | None


def compare(first: CatalogueRecord, second: CatalogueRecord) -> tuple[ContainerDifference, ...]:
    """Return the differences between two containers, sorted by kind and by name, ignoring case."""
    names = {
        comparable_name(package.name): package.name for record in (first, second) for package in record.content.packages
    }
    return (
        *_changes("image", _image_of(first), _image_of(second)),
        *_changes("stack", dict(first.content.stack), dict(second.content.stack)),
        *_changes("package", _packages_of(first), _packages_of(second), names=names),
        *_changes("variable", dict(first.content.environment), dict(second.content.environment)),
        *_changes("command", dict.fromkeys(first.content.commands, ""), dict.fromkeys(second.content.commands, "")),
    )


def _image_of(record: CatalogueRecord) -> dict[str, str]:
    values = {
        "size": str(record.size),
        "architecture": record.content.architecture,
        "targets": " ".join(record.content.targets),
        "python": record.content.python,
    }
    return {"sha256": record.sha256, **{name: value for name, value in values.items() if value}}


def _packages_of(record: CatalogueRecord) -> dict[str, str]:
    return {comparable_name(package.name): package.version for package in record.content.packages}


def _changes(
    kind: str, before: Mapping[str, str], after: Mapping[str, str], *, names: Mapping[str, str] | None = None
) -> Iterable[ContainerDifference]:
    for name in sorted({*before, *after}, key=lambda name: (name.lower(), name)):
        if before.get(name) != after.get(name):
            yield ContainerDifference(kind, (names or {}).get(name, name), before.get(name), after.get(name))
