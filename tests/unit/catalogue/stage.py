"""A catalogue of containers that were never installed: dummy texts instead of the output of `eb`, and dummy images."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcmod.catalogue.admin import lifecycle
from hpcmod.catalogue.change import Actor, changing, commit
from hpcmod.catalogue.records.index import read_index
from hpcmod.catalogue.records.sharing import make_catalogue, shared
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values import lifecycle as rules
from hpcmod.catalogue.values.lifecycle import key_of
from hpcmod.catalogue.values.record import CatalogueRecord, Check
from tests.catalogues import make_record

ADA = Actor("ada@login1", "because")
ONE, TWO = ("Toy", "1.0"), ("Toy", "2.0")
CHANGES = {
    *("os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate", "os.utime")
}
"""Audit events of calls that change what is on disk; so does an `open` for writing."""


def make_shop(directory: Path, *modules: str, counts_use: bool = False) -> Catalogue:
    """Create a catalogue with containers."""
    catalogue = Catalogue(directory, "shop", counts_use=counts_use)
    make_catalogue(catalogue)
    for module in modules:
        add(catalogue, make_record(module))
    return catalogue


def make_toys(directory: Path) -> Catalogue:
    """Create a catalogue with Toy 1.0, which is stable, and Toy 2.0."""
    catalogue = make_shop(directory, "Toy/1.0", "Toy/2.0")
    lifecycle.change_name(catalogue, "Toy", lambda all_: rules.move_alias(all_, ONE, "stable"), verb="alias", actor=ADA)
    return catalogue


def retire_one(catalogue: Catalogue) -> None:
    """Retire Toy 1.0 in favour of Toy 2.0."""
    lifecycle.change_name(
        catalogue, "Toy", lambda all_: rules.retire(all_, ONE, successor="Toy/2.0"), verb="retire", actor=ADA
    )


def add(catalogue: Catalogue, record: CatalogueRecord, syntax: str = "lua") -> CatalogueRecord:
    """Publish a container without installing it."""
    body = f"image of {record.module}".encode()
    digest = hashlib.sha256(body).hexdigest()
    whole = replace(record, sha256=digest, size=len(body), checks=(Check("true", True, "", digest),))
    place(catalogue, whole, body, syntax)
    with changing(catalogue, ADA):
        commit(catalogue, {key_of(whole): whole}, verb="publish", actor=ADA)
    return whole


def place(catalogue: Catalogue, record: CatalogueRecord, body: bytes, syntax: str = "lua") -> None:
    """Write the files that exist before the container becomes visible."""
    with shared(catalogue):
        _place(catalogue, record, body, syntax)


def _place(catalogue: Catalogue, record: CatalogueRecord, body: bytes, syntax: str) -> None:
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
    (software / "record.json").write_text(json.dumps({"files": {"run": ""}}))
    (software / "run").touch()


def load(catalogue: Catalogue, module: str, when: float) -> Path:
    """Create the file that loading a module creates, with the modification time `when` in seconds since 1970."""
    path = catalogue.loads / f"{module.replace('/', '@')}@{os.urandom(16).hex()}"
    path.touch()
    os.utime(path, (when, when))
    return path


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child process that is killed before its n-th change on disk; return whether it was killed.

    The signal is SIGKILL, so the child cannot clean up.
    """
    child = os.fork()
    if child == 0:
        seen = 0

        def count(event: str, details: tuple[Any, ...]) -> None:
            nonlocal seen
            if event in CHANGES or (event == "open" and details[2] & (os.O_WRONLY | os.O_RDWR)):
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


def state(catalogue: Catalogue) -> dict[str, object]:
    """Return everything that users and the next admin see, except for the journal and times."""
    files = {
        str(path.relative_to(catalogue.directory)): path.read_text("utf-8")
        for place in (catalogue.records_directory, catalogue.modules, catalogue.easyconfigs, catalogue.notices)
        for path in place.rglob("*")
        if path.is_file()
    }
    return {**files, "index": [tuple(entry) for entry in read_index(catalogue).entries]}


def modules_seen(catalogue: Catalogue) -> dict[str, str]:
    """Return what `module load` would do with each name, from the files alone: `loads`, `told`, or `-> VERSION`."""
    place = catalogue.modules / "Toy"
    texts = {path.stem: path.read_text() for path in place.glob("*.lua") if not path.name.startswith(".")}
    seen = {version: "told" if "LmodError" in text else "loads" for version, text in texts.items()}
    leads = re.findall(r'module_version\("Toy/(\S+)", (.*)\)', (place / ".modulerc.lua").read_text())
    return seen | {alias: f"-> {version}" for version, names in leads for alias in re.findall(r'"(\S+?)"', names)}
