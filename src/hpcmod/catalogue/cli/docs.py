"""The command `hpcmod catalogue docs`: write web pages about a catalogue."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import click

from hpcmod.catalogue.cli.options import open_catalogues
from hpcmod.catalogue.text.page import render_html
from hpcmod.catalogue.visible.documentation import (
    find_with_package,
    make_documentation,
    page_files,
    write_documentation,
)
from hpcmod.core.cli.output import json_option, print_data, print_json, tell
from hpcmod.core.errors import LackingError
from hpcmod.core.registry import offered
from hpcmod.machine import load_site

_SERVER = "jupyterlab"
"""The Python package that an image needs to be in an app for Open OnDemand."""


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
@click.option(
    "--ondemand",
    metavar="CLUSTER",
    help="Write an app for Open OnDemand instead, which starts JupyterLab in the containers on that cluster.",
)
@json_option(WrittenPages)
def docs(directory: Path, catalogue: Path | None, title: str | None, ondemand: str | None, as_json: bool) -> None:
    """Write web pages about the containers of a catalogue.

    The pages need no server: open index.html. The directory is replaced completely, so it must be new, empty, or
    written by this command.

    \b
    Examples:
      hpcmod catalogue docs ~/public_html/containers
      hpcmod catalogue docs --catalogue /apps/containers/catalogue --title "Containers on LUMI" site
      hpcmod catalogue docs --ondemand lumi /var/www/ood/apps/sys/containers
    """
    catalogues = open_catalogues(catalogue)
    if ondemand is None:
        named = title or catalogues[0].name or catalogues[0].directory.name
        documentation = make_documentation(catalogues, os.environ, title=named, now=time.time(), tell=tell)
        modules = [page.record.module for page in documentation.pages]
        texts, first = render_html(documentation, page_files()), "index.html"
    else:
        makers = list(offered("apps"))
        if not makers:
            raise LackingError("this hpcmod was built without its part for notebooks", "Install a release of hpcmod.")
        containers, site = find_with_package(catalogues, _SERVER), load_site(None, os.environ)
        modules = [record.module for record, _ in containers]
        apps = (make(containers, ondemand, title or "JupyterLab", site) for make in makers)
        texts, first = chain.from_iterable(apps), "form.yml"
    files = write_documentation(texts, directory, tell=tell)
    if as_json:
        print_json(WrittenPages(directory, files, tuple(modules)))
    else:
        print_data(str(directory / first))
        tell(f"containers: {len(modules)}, files: {files}")
