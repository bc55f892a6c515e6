"""Catalogues for tests: records written as files, with nothing installed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue.records.store import Catalogue, render_catalogue
from hpcmod.catalogue.values.record import CatalogueRecord, ContainerContent, Publication, record_json
from hpcmod.core.values.facts import Package

PACKAGES = (Package("numpy", "2.1.0"), Package("torch", "2.7.1+rocm6.2.4"), Package("torchvision", "0.22.1"))


def make_record(module: str, **fields: object) -> CatalogueRecord:
    """Make a container's record with default values, except for `fields`, as in its JSON form."""
    name, _, version = module.partition("/")
    record = CatalogueRecord(
        name=name,
        version=version,
        module=module,
        sif=f"{name}-{version}.sif",
        sha256=hashlib.sha256(module.encode()).hexdigest(),
        size=21_000_000,
        content=ContainerContent(packages=PACKAGES, python="3.12"),
        publication=Publication(easyconfig=f"{name}-{version}.eb", description=f"{name} as a container"),
    )
    return change_record(record, **fields)


def change_record(record: CatalogueRecord, **fields: object) -> CatalogueRecord:
    """Return a record with other values in some fields, which have the names of its JSON form."""
    for part in ("content", "publication", "notice"):
        inner = getattr(record, part)
        found = {name: fields.pop(name) for name in [*fields] if hasattr(inner, name)}
        record = replace(record, **{part: replace(inner, **found)})  # type: ignore[arg-type]
    return replace(record, **fields)  # type: ignore[arg-type]


def make_catalogue(directory: Path, *records: CatalogueRecord) -> Catalogue:
    """Make a catalogue of the given records, without an index."""
    catalogue = Catalogue(directory, directory.name)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "catalogue.json").write_text(render_catalogue(catalogue), encoding="utf-8")
    for record in records:
        put(catalogue, record)
    return catalogue


def put(catalogue: Catalogue, record: CatalogueRecord) -> None:
    """Write a record as publishing does: to a temporary name, then renamed."""
    path = catalogue.record_path(record.name, record.version)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(record_json(record), encoding="utf-8")
    partial.replace(path)
