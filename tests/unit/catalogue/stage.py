"""A catalogue whose containers were installed by nobody: texts stand in for what `eb` writes, bytes for images."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue.change import Actor, changing, commit
from hpcmod.catalogue.sharing import make_catalogue
from hpcmod.catalogue.store import Catalogue
from hpcmod.model.catalogue.lifecycle import key_of
from hpcmod.model.catalogue.record import CatalogueRecord, Check
from tests.catalogues import make_record

ADA = Actor("ada@login1", "because")


def make_shop(directory: Path, *modules: str, counts_use: bool = False) -> Catalogue:
    """Make a catalogue with containers."""
    catalogue = Catalogue(directory, "shop", counts_use=counts_use)
    make_catalogue(catalogue)
    for module in modules:
        add(catalogue, make_record(module))
    return catalogue


def add(catalogue: Catalogue, record: CatalogueRecord, syntax: str = "lua") -> CatalogueRecord:
    """Publish a container that nobody installed."""
    body = f"image of {record.module}".encode()
    digest = hashlib.sha256(body).hexdigest()
    whole = replace(record, sha256=digest, size=len(body), checks=(Check("true", True, "", digest),))
    place(catalogue, whole, body, syntax)
    with changing(catalogue, ADA):
        commit(catalogue, {key_of(whole): whole}, verb="publish", actor=ADA)
    return whole


def place(catalogue: Catalogue, record: CatalogueRecord, body: bytes, syntax: str = "lua") -> None:
    """Put in place what is there before anybody sees it."""
    kept = catalogue.kept / record.name / record.version
    software = catalogue.software / record.name / record.version
    for directory in (kept, software):
        directory.mkdir(parents=True)
    first = "#%Module\n" if syntax == "tcl" else ""
    (kept / f"module.{syntax}").write_text(
        f"{first}whatis {record.module}\n\n-- Written by hpcmod.\nload()\n", encoding="utf-8"
    )
    (kept / "easyconfig").write_text(f"# {record.module}\n", encoding="utf-8")
    (catalogue.images / record.sif).write_bytes(body)
    (software / "record.json").write_text(json.dumps({"files": ["run"]}))
    (software / "run").touch()


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run a piece of work in a child that is killed as it touches the file system for the n-th time; say if it was.

    This is kill -9: nothing of the child is told.
    """
    child = os.fork()
    if child == 0:
        seen = 0

        def count(event: str, _: object) -> None:
            nonlocal seen
            if event.partition(".")[0] in ("open", "os", "shutil"):
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)
