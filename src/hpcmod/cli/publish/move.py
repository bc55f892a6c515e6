"""The command `hpcmod catalogue move`: copy a catalogue to another directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.catalogue.admin.move import check_target, move_catalogue
from hpcmod.cli.output import print_data, print_json, tell
from hpcmod.cli.publish.options import changing_options, make_actor, open_catalogues


@dataclass(frozen=True)
class MovedCatalogue:
    """The old and the new directory of a catalogue."""

    dry_run: bool
    source: Path
    target: Path


@click.command()
@click.argument("target", metavar="DIRECTORY", type=click.Path(path_type=Path))
@changing_options(MovedCatalogue)
def move(target: Path, directory: Path | None, reason: str | None, dry_run: bool, as_json: bool) -> None:
    """Copy the catalogue to a new directory, and make its modules load from there.

    Users are not interrupted: modules in the old directory still load. The old directory accepts no more changes;
    remove it once it is no longer in use.

    \b
    Example:
      hpcmod catalogue move /appl/new/containers
    """
    catalogue, place = open_catalogues(directory)[0], target.absolute()
    check_target(catalogue, place)
    if not dry_run:
        move_catalogue(catalogue, place, actor=make_actor(reason))
    if as_json:
        print_json(MovedCatalogue(dry_run, catalogue.directory, place))
        return
    print_data(place)
    if dry_run:
        tell(f"would copy {catalogue.directory} to {place}; modules in the old directory would still load")
    else:
        tell(f"next: put {place} into `catalogues` of the site profile, and {place / 'modules/all'} on MODULEPATH")
