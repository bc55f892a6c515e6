"""Which containers of a catalogue are meant by names on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from hpcmod.catalogue.find import find_container
from hpcmod.catalogue.store import Catalogue
from hpcmod.model.catalogue.record import CatalogueRecord


def choose_records(catalogue: Catalogue, names: Sequence[str]) -> list[CatalogueRecord]:
    """Return the containers that are meant: all versions of a NAME, one NAME/VERSION, and everything without names.

    A retired container is meant only if its version is named.

    Raises
    ------
    NotFoundError
        If there is no such container.
    """
    if not names:
        return [record for record in catalogue.records() if record.state != "retired"]
    chosen: dict[str, CatalogueRecord] = {}
    for text in names:
        container = find_container([catalogue], text)
        named = [container.read()] if "/" in text else catalogue.named(container.name)
        chosen |= {one.module: one for one in named if "/" in text or one.state != "retired"}
    return list(chosen.values())
