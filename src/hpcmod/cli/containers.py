"""What the verbs of users share: which containers there are on this machine, and which one is meant."""

from __future__ import annotations

import difflib
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from hpcmod import machine
from hpcmod.catalogue.find import Container, find_container
from hpcmod.catalogue.index import Index, read_index, release_key
from hpcmod.catalogue.listing import Listed, list_containers
from hpcmod.catalogue.store import Catalogue, catalogue_directories, open_catalogue
from hpcmod.errors import HpcmodError, NotFoundError, explain_os_error
from hpcmod.image.sif import architecture_name
from hpcmod.install.installed import Installed, find_in_tree, find_installed, module_trees, own_trees
from hpcmod.model.catalogue.record import CatalogueRecord
from hpcmod.model.site import Site
from hpcmod.render.quote import terminal

JSON_VERSION = 1

site_option = click.option("--site", metavar="NAME|FILE", help="Name or file of the site profile.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@dataclass(frozen=True)
class Here:
    """A machine as it looks to a user."""

    site: Site
    catalogues: tuple[Catalogue, ...]
    trees: tuple[Path, ...]
    """Directories of modulefiles, but those of the catalogues."""
    say: Callable[[str], None]
    """Called with what is wrong with a catalogue, and hides no other."""

    def indexes(self) -> list[Index]:
        """Read the indexes of the catalogues."""
        found = [read_index(catalogue) for catalogue in self.catalogues]
        for message in (message for index in found for message in index.damaged):
            self.say(message)
        return found

    def own(self) -> list[Installed]:
        """Find the installations that are the user's own to change."""
        return list(find_installed(own_trees(self.trees)))

    def containers(self) -> list[Listed]:
        """List all containers there are."""
        architecture = architecture_name(platform.machine())
        return list_containers(self.indexes(), self.own(), site=self.site.name, architecture=architecture)


def look_around(site: str | None, *, say: Callable[[str], None] | None = None) -> Here:
    """Find site, catalogues and module trees.

    Raises
    ------
    HpcmodError
        If the site profile is not valid.
    """
    found = machine.find_machine(None, os.environ, flag=site).site
    catalogues = []
    for directory in catalogue_directories(found, os.environ):
        try:
            catalogues.append(open_catalogue(directory))
        except (HpcmodError, OSError) as err:  # a file system may be away, and other containers can be used
            (say or tell)(explain_os_error(err).message if isinstance(err, OSError) else str(err))
    trees = module_trees(os.environ, without=[one.modules for one in catalogues])
    return Here(found, tuple(catalogues), trees, say or tell)


def find_own(here: Here, text: str, *, writable: bool = False) -> Installed | None:
    """Find the installed module that is meant outside of the catalogues; of several versions the highest."""
    name, _, version = text.partition("/")
    trees = own_trees(here.trees) if writable else here.trees
    found = sorted(find_installed(trees, name), key=lambda one: release_key(one.version)) if name else []
    begun = [one for one in found if one.version.startswith(version)]
    exact = [one for one in found if one.version == version]
    if version and len(begun) > 1 and not exact:
        raise NotFoundError(
            f"which {text} is meant is not clear", "There are: " + ", ".join(one.module for one in begun)
        )
    return (exact or begun)[-1] if begun else None


def find_published(here: Here, text: str) -> Container:
    """Find the container of the catalogues that is meant.

    Raises
    ------
    NotFoundError
        If there is none; with the nearest name in the catalogues, else the nearest that is installed.
    """
    try:
        return find_container(here.catalogues, text)
    except NotFoundError as err:
        installed = {one.name for one in find_installed(here.trees)}
        near = difflib.get_close_matches(text.partition("/")[0], sorted(installed), n=1)
        if not near or "Did you mean" in err.cure:
            raise
        raise NotFoundError(err.message, f"Did you mean {near[0]}, which is installed? See: hpcmod ls") from err


def find_ready(here: Here, text: str) -> Installed:
    """Find the module that can be used at once: an own installation, else that of a catalogue.

    Raises
    ------
    NotFoundError
        If there is none; with the command that helps.
    """
    own = find_own(here, text)
    if own:
        return own
    container = find_published(here, text)
    record = container.read()
    own = find_own(here, record.module)
    if own is None and record.state == "retired" and record.until <= time.strftime("%Y-%m-%d", time.gmtime()):
        raise say_end(record)
    found = own or find_in_tree(container.catalogue.modules, record.module)
    if found is None:
        raise NotFoundError(f"{record.module} is not installed here", f"Install it: hpcmod install {record.module}")
    _tell_end(record)
    return found


def _tell_end(record: CatalogueRecord) -> None:
    if record.state != "published":
        until = f" until {record.until}" if record.until else ""
        use = f"; use {record.successor}" if record.successor else ""
        tell(f"{record.module} is {record.state}{until}{f': {record.reason}' if record.reason else ''}{use}")


def say_end(record: CatalogueRecord) -> NotFoundError:
    """Make the error for a retired container, which names its successor."""
    why = f": {record.reason}" if record.reason else ""
    cure = f"Use {record.successor}: hpcmod install {record.successor}" if record.successor else "See: hpcmod ls"
    return NotFoundError(f"{record.module} is retired{why}", cure)


def complete_container(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a container: all there are, with their versions once the name is whole."""
    given = ctx.params.get(parameter.name or "") or ()
    if isinstance(given, tuple) and any(not word.startswith("-") for word in given):
        return []
    try:
        modules = [one.module for one in look_around(None, say=lambda _: None).containers() if one.state != "retired"]
    except (HpcmodError, OSError):  # a shell shows no errors of completion
        return []
    names = list(dict.fromkeys(module.partition("/")[0] for module in modules))
    begun = [name for name in names if name.lower().startswith(incomplete.lower())]
    if "/" in incomplete or len(begun) == 1:
        begun = [module for module in modules if module.lower().startswith(incomplete.lower())]
    return [CompletionItem(one) for one in begun]


def print_json(**values: Any) -> None:
    """Print one JSON object, of the version that is told in it."""
    click.echo(json.dumps({"version": JSON_VERSION, **values}))


def tell(line: str) -> None:
    """Say something to the user beside the data."""
    click.echo(f"hpcmod: {terminal(line)}", err=True)
