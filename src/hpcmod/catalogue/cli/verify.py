"""The command `hpcmod catalogue verify`: check a whole catalogue, and repair modes and groups."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import click

from hpcmod.catalogue.cli.containers import complete_container
from hpcmod.catalogue.cli.options import catalogue_option, open_catalogues
from hpcmod.catalogue.finding.find import choose_records
from hpcmod.catalogue.records.journal import read_journal
from hpcmod.catalogue.records.sharing import may_give_to
from hpcmod.catalogue.records.store import FIX_MODES, REBUILD, Catalogue
from hpcmod.catalogue.storage.modes import UNPROVEN, WrongMode, find_wrong_modes
from hpcmod.catalogue.storage.modes import fix_modes as set_modes
from hpcmod.catalogue.values.journal import replay
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.verify import verify_container
from hpcmod.core.cli.findings import Findings, show_findings
from hpcmod.core.cli.output import json_option
from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.fs.ownership import user_name
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.finding import FAIL, OK, WARN, Finding

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
    records = list(_check_records(catalogue))
    if records:  # perhaps by a change that has ended meanwhile
        records = list(_check_records(catalogue))
    doubtful = {finding.subject.removesuffix(" record") for finding in records if finding.subject}
    if doubtful:  # who may read an image is in its record
        modes = iter([Finding(WARN, "modes", "not checked: restore the records first")])
    else:
        modes = _check_modes(catalogue, fix=fix_modes)
    findings = [*records, *modes, *_check_containers(catalogue, names, images=images, doubtful=doubtful)]
    show_findings(findings, as_json=as_json)


def _check_modes(catalogue: Catalogue, *, fix: bool) -> Iterator[Finding]:
    wrong = list(find_wrong_modes(catalogue))
    if not wrong:
        yield Finding(OK, "modes", f"files and directories below {catalogue.directory}")
        return
    left = list(set_modes(catalogue, wrong)) if fix else [(wrong_mode, "") for wrong_mode in wrong]
    for entry, reason in left[:_SHOWN]:
        cure = _cure(entry, reason, catalogue.images)
        level, wanted = (WARN, "of no container") if entry.spare else (FAIL, f"expected {entry.wanted}")
        yield Finding(level, "modes", f"{entry.path}: {entry.found}, {wanted}", cure)
    if len(left) > _SHOWN:
        yield Finding(FAIL, "modes", f"{len(left) - _SHOWN} more")
    unproven = [entry for entry, _ in left if not (entry.anchor or entry.record or entry.spare) and _may_set(entry)]
    if unproven:
        cure = f"If these files belong to the catalogue: {_setting(unproven)}; otherwise move them away"
        yield Finding(FAIL, "modes", f"{len(unproven)} of them not set by --fix-modes: {UNPROVEN}", cure)
    if fix:
        yield Finding(OK, "modes", f"{len(wrong) - len(left)} of {len(wrong)} fixed")


def _cure(wrong: WrongMode, reason: str, images: Path) -> str:
    if wrong.spare:
        return "It stays closed. Publish it, or leave it to: hpcmod catalogue gc"
    if wrong.anchor is None and _may_set(wrong):
        # one command for all others follows
        return _publishing(images, wrong.record, wrong.found.split()[-1]) if wrong.record else ""
    status = wrong.path.lstat()
    if os.geteuid() == status.st_uid and status.st_gid != wrong.group and not may_give_to(wrong.group):
        return f"You must be in this group (see: groups) to run: {FIX_MODES}"
    if _may_set(wrong) and not reason:
        return f"To set modes and groups: {FIX_MODES}"
    return f"{reason if wrong.anchor and reason else 'not yours'}: ask {user_name(status.st_uid)} to run: {FIX_MODES}"


def _may_set(wrong: WrongMode) -> bool:
    return os.geteuid() in (0, wrong.path.lstat().st_uid)


def _publishing(images: Path, record: CatalogueRecord, group: str) -> str:
    """Return how to give an image to the group that its record names, else to the one that it has now."""
    options = ("--name", record.name, "--version", record.version, "--readers", record.readers or group)
    command = ("hpcmod", "publish", str(images / record.sif), *options)
    return f"Publish it again for its group: {' '.join(map(sh_word, command))}"


def _setting(wrong: list[WrongMode]) -> str:
    files: dict[str, list[str]] = {}
    for wrong_mode in wrong:
        if wrong_mode.path.lstat().st_gid != wrong_mode.group:
            files.setdefault(f"chgrp {wrong_mode.group}", []).append(shlex.quote(str(wrong_mode.path)))
    for wrong_mode in wrong:
        files.setdefault(f"chmod {wrong_mode.mode:o}", []).append(shlex.quote(str(wrong_mode.path)))
    return " && ".join(" ".join((command, *paths)) for command, paths in files.items())


def _check_records(catalogue: Catalogue) -> Iterator[Finding]:
    """Compare each record with the journal, which has every change of it."""
    try:
        journal = replay(read_journal(catalogue.directory))
    except BadInputError as err:
        yield Finding(FAIL, "journal", err.message, err.cure)
        return
    for key in sorted({*journal, *catalogue.containers()}):
        path, wanted, subject = catalogue.record_path(*key), journal.get(key), f"{'/'.join(key)} record"
        try:
            found = catalogue.find(*key)
        except BadInputError as err:
            yield Finding(FAIL, "record", err.message, err.cure, subject=subject)
            continue
        if found is None:
            yield Finding(FAIL, "record", f"{path} is missing", f"Restore it: {REBUILD}", subject=subject)
        elif wanted and found != wanted:
            cure = f"Restore what the journal has: rm {sh_word(str(path))}; {REBUILD}"
            yield Finding(FAIL, "record", f"{path} is not as published", cure, subject=subject)


def _check_containers(
    catalogue: Catalogue, names: tuple[str, ...], *, images: bool, doubtful: Collection[str]
) -> Iterator[Finding]:
    """Verify containers, but for those whose record is doubtful."""
    try:
        chosen = choose_records(catalogue, names)
    except HpcmodError:
        if not doubtful:
            raise
        chosen = [record for record in catalogue.readable_records() if not names and record.state != "retired"]
    for record in (record for record in chosen if f"{record.name}/{record.version}" not in doubtful):
        for finding in verify_container(catalogue, record, images=images):
            yield replace(finding, subject=f"{record.module} {finding.subject}")
