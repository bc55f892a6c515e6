"""The commands `hpcmod catalogue init`, `rebuild`, `move` and `journal`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import click

from hpcmod.catalogue.admin.move import check_target, move_catalogue
from hpcmod.catalogue.change import changing, refresh_index, restore_lost
from hpcmod.catalogue.cli.options import catalogue_option, changing_options, make_actor, open_catalogues
from hpcmod.catalogue.records.journal import read_journal
from hpcmod.catalogue.records.sharing import make_catalogue
from hpcmod.catalogue.records.store import Catalogue, open_catalogue
from hpcmod.catalogue.values.journal import Change
from hpcmod.catalogue.verify import find_unrendered
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import json_option, print_data, print_json, print_table, tell
from hpcmod.core.errors import CheckFailedError, NotFoundError
from hpcmod.core.values.finding import FAIL
from hpcmod.machine import find_machine


@dataclass(frozen=True)
class CatalogueDirectory:
    """The catalogue that was made, rebuilt, or copied to a new directory."""

    catalogue: Path


@dataclass(frozen=True)
class Journal:
    """Changes of a catalogue, the latest last."""

    changes: tuple[Change, ...]


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--name", default="", help="Name of the catalogue (default: the directory's name).")
@click.option("--group", default="", help="Group that may publish; all users may read.")
@click.option("--count-use/--no-count-use", default=None, help="Count how often modules are loaded.")
@site_option
@json_option(CatalogueDirectory)
def init(directory: Path, name: str, group: str, count_use: bool | None, site: str | None, as_json: bool) -> None:
    """Create a catalogue on a shared file system, or change the given settings of an existing one.

    \b
    Examples:
      hpcmod catalogue init /appl/containers --group swadmin
      hpcmod catalogue init /appl/containers --count-use     # for `hpcmod catalogue gc`: one byte per load, no names
    """
    path = directory.absolute()
    known = open_catalogue(path) if (path / "catalogue.json").is_file() else Catalogue(path, path.name)
    profile = find_machine(None, os.environ, flag=site).site
    made = replace(
        known,
        name=name or known.name,
        site=profile.name if site or not known.site else known.site,
        counts_use=known.counts_use if count_use is None else count_use,
    )
    make_catalogue(made, group=group)
    actor = make_actor()
    with changing(made, actor):
        refresh_index(made, actor)
    if as_json:
        print_json(CatalogueDirectory(path))
    else:
        print_data(path)


@click.command()
@catalogue_option
@json_option(CatalogueDirectory)
def rebuild(directory: Path | None, as_json: bool) -> None:
    """Regenerate modules, aliases, index and notices from the records, and lost records from the journal.

    \b
    Example:
      hpcmod catalogue rebuild
    """
    catalogue, actor = open_catalogues(directory)[0], make_actor()
    with changing(catalogue, actor):
        restore_lost(catalogue, actor)
        refresh_index(catalogue, actor)
    lost = [(record, each) for record in catalogue.readable_records() for each in find_unrendered(catalogue, record)]
    failed = [(f"{record.module}: {each.found}", each.cure) for record, each in lost if each.level == FAIL]
    if failed:
        raise CheckFailedError(
            f"not regenerated: {'; '.join(found for found, _ in failed)}", "\n".join(cure for _, cure in failed)
        )
    if as_json:
        print_json(CatalogueDirectory(catalogue.directory))
    else:
        tell(f"{catalogue.directory}: regenerated modules, aliases, index and notices")


@click.command()
@click.argument("target", metavar="DIRECTORY", type=click.Path(path_type=Path))
@changing_options(CatalogueDirectory)
def move(target: Path, directory: Path | None, reason: str | None, dry_run: bool, as_json: bool) -> None:
    """Copy the catalogue to a new directory, and make its modules load from there.

    The old directory stays as it is: its modules still load. Remove it once it is no longer in use.

    \b
    Example:
      hpcmod catalogue move /appl/new/containers
    """
    catalogue, new = open_catalogues(directory)[0], target.absolute()
    check_target(catalogue, new)
    if not dry_run:
        move_catalogue(catalogue, new, actor=make_actor(reason))
    if as_json:
        print_json(CatalogueDirectory(new))
        return
    print_data(new)
    if dry_run:
        tell(f"would copy {catalogue.directory} to {new}")
    else:
        tell(f"next: put {new} into `catalogues` of the site profile, and {new / 'modules/all'} on MODULEPATH")


@click.command()
@click.argument("container", metavar="[NAME[/VERSION]]", default="")
@catalogue_option
@json_option(Journal)
def journal(container: str, directory: Path | None, as_json: bool) -> None:
    """Show who changed what, when and why; the latest change last.

    \b
    Example:
      hpcmod catalogue journal PyTorch
    """
    changes = [
        change
        for change in read_journal(open_catalogues(directory)[0].directory)
        if not container or any(f"{module}/".startswith(f"{container}/") for module in change.modules)
    ]
    if as_json:
        print_json(Journal(tuple(changes)))
        return
    if container and not changes:
        raise NotFoundError(f"no changes of {container} in the journal", "See: hpcmod catalogue journal")
    print_table(("CHANGE", "WHEN", "WHAT"), map(_row, changes))


def _row(change: Change) -> tuple[str, str, str]:
    why = f": {change.why}" if change.why else ""
    undone = f" (reverts {change.undoes})" if change.undoes else ""
    text = f"{change.verb} {', '.join(change.modules)}".strip()
    changed = [item for edit in change.edits if edit.before and edit.after for item in edit.after.items()]
    terms = "".join(f", {field}: {value or 'none'}" for field, value in changed if field in ("readers", "licence"))
    return str(change.id), change.when, f"{text}{terms}{undone}, by {change.who}{why}"
