"""The command `hpcmod catalogue verify`: check a whole catalogue, and repair modes and groups."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from hpcmod.catalogue.cli.choosing import choose_records
from hpcmod.catalogue.cli.containers import complete_container
from hpcmod.catalogue.cli.options import catalogue_option, open_catalogues
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.storage.modes import WrongMode, find_wrong_modes
from hpcmod.catalogue.storage.modes import fix_modes as set_modes
from hpcmod.catalogue.verify import verify_container
from hpcmod.core.cli.findings import Findings, show_findings
from hpcmod.core.cli.output import json_option
from hpcmod.core.values.finding import FAIL, OK, Finding

_SHOWN = 20  # wrong modes listed individually


@click.command()
@click.argument("names", metavar="[NAME[/VERSION]]...", nargs=-1, shell_complete=complete_container)
@click.option("--images", is_flag=True, help="Also read every byte of every image, not only its size.")
@click.option("--fix-modes", is_flag=True, help="Set modes and groups to those of the catalogue's directory.")
@catalogue_option
@json_option(Findings)
def verify(names: tuple[str, ...], images: bool, fix_modes: bool, directory: Path | None, as_json: bool) -> None:
    """Check a catalogue: modes and groups of all files, and each container against its record.

    \b
    Examples:
      hpcmod catalogue verify
      hpcmod catalogue verify --fix-modes     # after a backup was unpacked without `tar -p`
      hpcmod catalogue verify PyTorch --images
    """
    catalogue = open_catalogues(directory)[0]
    findings = [*_check_modes(catalogue, fix=fix_modes), *_check_containers(catalogue, names, images=images)]
    show_findings(findings, as_json=as_json)


def _check_modes(catalogue: Catalogue, *, fix: bool) -> Iterator[Finding]:
    wrong = list(find_wrong_modes(catalogue))
    if not wrong:
        yield Finding(OK, "modes", f"files and directories below {catalogue.directory}")
        return
    if not fix:
        yield from (
            _fail(one, "To set modes and groups: hpcmod catalogue verify --fix-modes") for one in wrong[:_SHOWN]
        )
        if len(wrong) > _SHOWN:
            yield Finding(FAIL, "modes", f"{len(wrong) - _SHOWN} more")
        return
    left = list(set_modes(catalogue, wrong))
    for one, reason in left[:_SHOWN]:
        yield _fail(one, _cure(one, reason))
    yield Finding(OK, "modes", f"{len(wrong) - len(left)} of {len(wrong)} fixed")


def _fail(one: WrongMode, cure: str) -> Finding:
    return Finding(FAIL, "modes", f"{one.path}: {one.found}, expected {one.wanted}", cure)


def _cure(one: WrongMode, reason: str) -> str:
    if one.anchor:
        return f"{reason}: ask {_owner(one.path)} to run: hpcmod catalogue verify --fix-modes"
    setting = f"chmod {one.mode:o} {shlex.quote(str(one.path))}"
    return f"{reason}, so its mode is not changed. If it belongs to the catalogue: {setting}; otherwise move it away"


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return f"user {path.stat().st_uid}"


def _check_containers(catalogue: Catalogue, names: tuple[str, ...], *, images: bool) -> Iterator[Finding]:
    for record in choose_records(catalogue, names):
        for finding in verify_container(catalogue, record, images=images):
            yield replace(finding, subject=f"{record.module} {finding.subject}")
