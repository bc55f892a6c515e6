"""The verb site setup: writes what a site needs once, so that `module load hpcmod` and plain `eb` do the rest."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

import hpcmod
from hpcmod.catalogue.setup import SetupFile, make_site_module, setup_files, write_setup
from hpcmod.catalogue.store import open_catalogue
from hpcmod.cli.containers import complete_site
from hpcmod.cli.output import print_data, print_message, print_text
from hpcmod.errors import BadInputError
from hpcmod.machine import find_machine
from hpcmod.render.quote import sh_word


@click.command("setup")
@click.option(
    "--catalogue",
    "catalogues",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A catalogue that users are to find; may be given several times, the first has priority.",
)
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the module and its scripts go; default: site/ of the first catalogue.",
)
@click.option(
    "--site",
    metavar="NAME|FILE",
    shell_complete=complete_site,
    help="The site profile that users get; default: hpcmod chooses.",
)
@click.option("--eb", is_flag=True, help="Put the eb beside hpcmod on PATH too: for a machine without one of its own.")
@click.option("--dry-run", is_flag=True, help="Name the files, write nothing.")
@click.option("--print", "show", is_flag=True, help="Print the files, write nothing.")
def site_setup(
    catalogues: Sequence[Path], output: Path | None, site: str | None, eb: bool, dry_run: bool, show: bool
) -> None:
    """Write the module that gives users hpcmod, the containers of a catalogue, and an eb that finds our easyconfigs.

    In Lua and in Tcl. Prints the directory for MODULEPATH; say it to users, or add it to what all of them have there.

    \b
    Examples:
      hpcmod site setup --catalogue /appl/containers --dry-run
      hpcmod site setup --catalogue /appl/containers --site /etc/hpcmod/site.toml
      hpcmod site setup --output /appl/hpcmod --eb
    """
    if not catalogues and output is None:
        raise BadInputError("neither a catalogue nor a place is named", "Add --catalogue DIR, or --output DIR.")
    opened = [open_catalogue(one.absolute()) for one in catalogues]
    place = output.absolute() if output else opened[0].directory / "site"
    module = make_site_module(place, Path(sys.executable), opened, version=hpcmod.__version__, site=_checked_site(site))
    files = setup_files(place, module, eb=eb)
    if dry_run or show:
        _print(files, whole=show)
        return
    write_setup(files)
    modules = place / "modules"
    print_data(modules)
    print_message(f"users say: module use {sh_word(str(modules))}; module load hpcmod")


def _checked_site(asked: str | None) -> str:
    """Check that a profile can be read; a file is named by its whole path, for users stand elsewhere."""
    if not asked:
        return ""
    find_machine(None, {}, flag=asked)
    return str(Path(asked).absolute()) if Path(asked).is_file() else asked


def _print(files: Sequence[SetupFile], *, whole: bool) -> None:
    for file in files:
        if whole:
            print_text(f"==> {file.path} <==")
            print_data(file.text)
        else:
            print_text(f"{file.path} ({file.text.count(chr(10))} lines)")
