"""Choose containers of a catalogue by the names on a command line."""

from __future__ import annotations

from collections.abc import Sequence

from hpcmod.catalogue.finding.find import find_container
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.record import CatalogueRecord


def choose_records(catalogue: Catalogue, names: Sequence[str]) -> list[CatalogueRecord]:
    """Return all versions of each NAME and the one version of each NAME/VERSION; all containers if no name is given.

    A retired container is included only if its version is named.

    Raises
    ------
    NotFoundError
        If a container does not exist.
    """
    if not names:
        return [record for record in catalogue.records() if record.state != "retired"]
    chosen: dict[str, CatalogueRecord] = {}
    for text in names:
        container = find_container([catalogue], text)
        named = [container.read()] if "/" in text else catalogue.named(container.name)
        chosen |= {record.module: record for record in named if "/" in text or record.state != "retired"}
    return list(chosen.values())
