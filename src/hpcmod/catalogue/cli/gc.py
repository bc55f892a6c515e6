"""The command `hpcmod catalogue gc`: remove unused files of a catalogue."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.catalogue.admin.gc import Unused, find_unused, remove_unused
from hpcmod.catalogue.cli.options import changing_options, make_actor, open_catalogues
from hpcmod.core.cli.output import format_size, print_json, print_table, tell


@dataclass(frozen=True)
class UnusedFiles:
    """Unused files, directories and modules."""

    dry_run: bool
    change: int
    """ID of the change in the journal; 0 if there is none."""
    found: tuple[Unused, ...]


@click.command()
@click.option(
    "--days",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Age in days; newer files and modules loaded since then are kept.",
)
@changing_options(UnusedFiles)
def gc(days: float, directory: Path | None, reason: str | None, dry_run: bool, as_json: bool) -> None:
    """Remove unused images and report unused modules.

    Published modules are never removed, only reported as unused, and only if loads are counted (`hpcmod catalogue init
    --count-use`). The names of retired containers are kept, so that users still see what to load instead. If you lack
    the permission to remove one of the files, nothing is removed. Removed files cannot be restored.

    \b
    Example:
      hpcmod catalogue gc --dry-run --days 90
    """
    catalogue = open_catalogues(directory)[0]
    change = 0
    if dry_run:
        files = find_unused(catalogue, days=days, now=time.time())
    else:
        files, change = remove_unused(catalogue, days=days, now=time.time(), actor=make_actor(reason))
    if as_json:
        print_json(UnusedFiles(dry_run, change, tuple(files)))
        return
    print_table(("ACTION", "PATH OR MODULE", "SIZE", "WHY"), (_make_row(unused, dry_run=dry_run) for unused in files))
    if not files:
        tell(f"{catalogue.directory}: nothing to remove")
    if not catalogue.counts_use:
        tell("loads are not counted; to count them: hpcmod catalogue init --count-use DIRECTORY")


def _make_row(unused: Unused, *, dry_run: bool) -> tuple[str, str, str, str]:
    size, why = format_size(unused.size) if unused.size else "0 B", unused.why
    if unused.private:
        why += f", but only its owner can change {unused.private}: remove it by hand if it is not needed"
        return "not removed", unused.what, size, why
    if not unused.remove:
        return "hardly used", unused.what, size, why
    return "would remove" if dry_run else "removed", unused.what, size, why
