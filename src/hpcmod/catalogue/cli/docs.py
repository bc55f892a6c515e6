"""The command `hpcmod catalogue docs`: write web pages about a catalogue."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.catalogue.cli.options import open_catalogues
from hpcmod.catalogue.visible.documentation import make_documentation, write_documentation
from hpcmod.core.cli.output import json_option, print_data, print_json, tell


@dataclass(frozen=True)
class WrittenPages:
    """The written pages."""

    directory: Path
    files: int
    """Number of written files."""
    containers: tuple[str, ...]


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--catalogue",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Directory of the catalogue (default: all catalogues of this machine).",
)
@click.option("--title", help="Title of the pages (default: the name of the catalogue).")
@json_option(WrittenPages)
def docs(directory: Path, catalogue: Path | None, title: str | None, as_json: bool) -> None:
    """Write web pages about the containers of a catalogue.

    The pages need no server: open index.html. The directory is replaced completely, so it must be new, empty, or
    written by this command.

    \b
    Examples:
      hpcmod catalogue docs ~/public_html/containers
      hpcmod catalogue docs --catalogue /apps/containers/catalogue --title "Containers on LUMI" site
    """
    catalogues = open_catalogues(catalogue)
    named = title or catalogues[0].name or catalogues[0].directory.name
    documentation = make_documentation(catalogues, os.environ, title=named, now=time.time(), tell=tell)
    modules = [page.record.module for page in documentation.pages]
    files = write_documentation(documentation, directory, tell=tell)
    if as_json:
        print_json(WrittenPages(directory, files, tuple(modules)))
    else:
        print_data(str(directory / "index.html"))
        tell(f"containers: {len(modules)}, files: {files}")
