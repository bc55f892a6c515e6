"""The container module loaded in a shell, and what the catalogues know about its image."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

from hpcmod.catalogue.records.store import Catalogue, find_catalogues, software_of
from hpcmod.catalogue.text.notice import render_advisory
from hpcmod.catalogue.values.record import CatalogueRecord, publishing_again
from hpcmod.catalogue.visible.advisories import matching_advisories, read_advisories
from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.facts import Package
from hpcmod.core.values.finding import OK, WARN, Finding
from hpcmod.machine import load_site
from hpcmod.modules import read_record


@dataclass(frozen=True)
class LoadedModule:
    """The container module loaded in this shell."""

    module: str
    """Short module name; empty if none is loaded."""
    sha256: str
    """Checksum of its image; empty if unknown."""
    packages: tuple[Package, ...] = ()
    """Python packages in its image."""


def find_loaded(environ: Mapping[str, str]) -> LoadedModule:
    """Return the container module loaded in an environment, from the variables that our modules set."""
    module = environ.get("_HPCMOD_CONTAINER", "").rpartition(" ")[2]
    root = environ.get("CONTAINERROOT", "")
    if not (module and root):
        return LoadedModule(module, "")
    record = read_record(Path(root))
    # of several, CONTAINERROOT is that of the last
    return LoadedModule(record.module or module, record.image.sha256, record.packages)


def check_advisories(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what the catalogues know about the loaded module, for `hpcmod doctor`; nothing without a catalogue."""
    skipped: list[str] = []
    try:
        listed = find_catalogues(load_site(None, environ), environ, tell=skipped.append)
    except HpcmodError as err:
        yield Finding(WARN, "catalogues", err.message, err.cure)
        return
    for line in skipped:
        yield Finding(WARN, "catalogues", line, "")
    if not listed:
        return
    loaded = find_loaded(environ)
    for fault in read_advisories(listed):
        if isinstance(fault, BadInputError):
            yield Finding(WARN, "advisories", fault.message, fault.cure)
    if not loaded.module:
        yield Finding(OK, "advisories", "no container module is loaded")
        return
    known = matching_advisories(listed, loaded.module, loaded.sha256, environ=environ, packages=loaded.packages)
    for advisory in known:
        cure = render_advisory(advisory).replace("\n", "\n     ")
        yield Finding(WARN, "advisory", f"{loaded.module}: {advisory.title}", cure)
    if not known:
        yield Finding(OK, "advisories", f"none for {loaded.module}")


def retired_installations(environ: Mapping[str, str]) -> frozenset[Path]:
    """Return the roots of the installations that this machine's catalogues have retired, and that do not load today."""
    today = time.strftime("%Y-%m-%d", time.gmtime())
    retired = (each for each in _records(environ) if each[1].state == "retired" and each[1].notice.until <= today)
    return frozenset(starmap(software_of, retired))


def published_cures(environ: Mapping[str, str]) -> dict[Path, str]:
    """Return how to repair each container of this machine's catalogues that is damaged, by root of its installation."""
    return {software_of(catalogue, record): _cure(catalogue, record) for catalogue, record in _records(environ)}


def _cure(catalogue: Catalogue, record: CatalogueRecord) -> str:
    if os.access(catalogue.locks, os.W_OK):
        return f"Publish its image again: {publishing_again(record)}"
    return f"Verify it, and send what that finds to your support team: hpcmod verify {sh_word(record.module)}"


def _records(environ: Mapping[str, str]) -> Iterator[tuple[Catalogue, CatalogueRecord]]:
    try:
        listed = find_catalogues(load_site(None, environ), environ, tell=lambda _: None)
    except HpcmodError:  # check_advisories reports it
        return
    yield from ((catalogue, record) for catalogue in listed for record in catalogue.readable_records())
