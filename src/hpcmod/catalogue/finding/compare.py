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
    names = {comparable_name(one.name): one.name for record in (first, second) for one in record.packages}
    return (
        *_changes("image", _image_of(first), _image_of(second)),
        *_changes("stack", dict(first.stack), dict(second.stack)),
        *_changes("package", _packages_of(first), _packages_of(second), names=names),
        *_changes("variable", dict(first.environment), dict(second.environment)),
        *_changes("command", dict.fromkeys(first.commands, ""), dict.fromkeys(second.commands, "")),
    )


def _image_of(record: CatalogueRecord) -> dict[str, str]:
    values = {
        "size": str(record.size),
        "architecture": record.architecture,
        "targets": " ".join(record.targets),
        "python": record.python,
    }
    return {"sha256": record.sha256, **{name: value for name, value in values.items() if value}}


def _packages_of(record: CatalogueRecord) -> dict[str, str]:
    return {comparable_name(package.name): package.version for package in record.packages}


def _changes(
    kind: str, before: Mapping[str, str], after: Mapping[str, str], *, names: Mapping[str, str] | None = None
) -> Iterable[ContainerDifference]:
    for name in sorted({*before, *after}, key=lambda one: (one.lower(), one)):
        if before.get(name) != after.get(name):
            yield ContainerDifference(kind, (names or {}).get(name, name), before.get(name), after.get(name))
