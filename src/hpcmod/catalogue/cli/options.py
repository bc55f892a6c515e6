"""Shared by the commands that change a catalogue: options, the user and reason of a change, and its output."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpcmod.catalogue.records.store import Catalogue, find_catalogues, open_catalogue
from hpcmod.catalogue.values.journal import Change
from hpcmod.core.cli.arguments import Option, with_options
from hpcmod.core.cli.output import json_option, print_json, print_text, tell
from hpcmod.core.errors import NotFoundError
from hpcmod.machine import load_site

if TYPE_CHECKING:
    from hpcmod.catalogue.change import Actor

catalogue_option = click.option(
    "--catalogue", "directory", metavar="DIRECTORY", type=click.Path(path_type=Path), help="Directory of the catalogue."
)


@dataclass(frozen=True)
class ChangeFlags:
    """Options of every command that changes a catalogue."""

    directory: Path | None
    """Of the catalogue; None: this machine's."""
    reason: str | None
    """Empty or None: not given."""
    dry_run: bool
    as_json: bool


def changing_options(*outputs: type) -> Option:
    """Add the options of every command that changes a catalogue; with --json it prints one of some values."""
    return with_options(
        catalogue_option,
        click.option("-m", "--reason", metavar="TEXT", help="Reason, for the journal and for messages to users."),
        click.option("--dry-run", is_flag=True, help="Print what would change; change nothing."),
        json_option(*outputs),
    )


@dataclass(frozen=True)
class CatalogueChange:
    """A change of a catalogue, made or planned."""

    dry_run: bool
    change: Change


def open_catalogues(directory: Path | None) -> tuple[Catalogue, ...]:
    """Open the given catalogue, or those of this machine by priority; raise NotFoundError if there is none."""
    if directory:
        return (open_catalogue(directory.absolute()),)
    found = find_catalogues(load_site(None, os.environ), os.environ, tell=tell)
    if not found:
        raise NotFoundError(
            "no catalogue: --catalogue, $HPCMOD_CATALOGUE and `catalogues` of the site profile are all unset",
            "Set one of them, or create a catalogue: hpcmod catalogue init DIRECTORY",
        )
    return found


def make_actor(reason: str | None = None) -> Actor:
    """Return the user and host of this process, with the reason for the change."""
    from hpcmod.catalogue.change import Actor  # slow to import, and few commands need it

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # without an entry in passwd
        user = str(os.getuid())
    return Actor(f"{user}@{socket.gethostname()}", reason or "", tell)


def show_change(change: Change, *, as_json: bool, dry_run: bool) -> None:
    """Print each changed field of each container, before and after, or what a dry run would change."""
    if as_json:
        print_json(CatalogueChange(dry_run, change))
        return
    if not change.edits:
        tell("no change needed")
    for edit in change.edits:
        for line in _render_edit(edit.before, edit.after):
            print_text(f"{edit.name}/{edit.version}: {line}")
    if change.edits and not dry_run:
        tell(f"change {change.id}; to revert it: hpcmod catalogue undo {change.id}")


def _render_edit(before: Any, after: Any) -> list[str]:
    if before is None or after is None:
        return ["published" if before is None else "no longer published"]
    return [_render_field(field, before[field], after[field]) for field in after]


def _render_field(field: str, before: Any, after: Any) -> str:
    if field == "rendering":  # the change that made it
        field = "modules and scripts"
        before, after = (f"as of change {number}" if number else "as published" for number in (before, after))
    if field == "checks":  # those that failed are in no record
        before, after = (f"{len(done)} passed at {done[-1]['when']}" if done else "" for done in (before, after))
    return f"{field}: {_show(before)} -> {_show(after)}"


def _show(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) and all(isinstance(text, str) for text in value) else value
    return " ".join(str(text).split()) or "none"
