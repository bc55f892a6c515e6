"""The command `hpcmod site setup`: write the module with which users of a site load hpcmod."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from hpcmod.catalogue.admin.setup import find_closed_to_users, setup_files, write_setup
from hpcmod.catalogue.records.store import open_catalogue
from hpcmod.catalogue.text.site_module import COMPLETION
from hpcmod.core.cli.arguments import complete_site
from hpcmod.core.cli.completion import completion_script
from hpcmod.core.cli.output import print_data, print_message, print_text, tell
from hpcmod.core.errors import BadInputError
from hpcmod.core.text.quote import sh_word
from hpcmod.machine import find_machine


@click.command("setup")
@click.option(
    "--catalogue",
    "catalogues",
    multiple=True,
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Catalogue for users; repeatable, the first has priority.",
)
@click.option(
    "-o",
    "--output",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Directory to write to (default: site/ of the first catalogue).",
)
@click.option(
    "--site",
    metavar="NAME|FILE",
    shell_complete=complete_site,
    help="Site profile for users (default: hpcmod chooses).",
)
@click.option("--eb", is_flag=True, help="Also put hpcmod's eb on PATH, for a machine without its own.")
@click.option("--dry-run", is_flag=True, help="Print the names of the files; write nothing.")
def site_setup(catalogues: Sequence[Path], output: Path | None, site: str | None, eb: bool, dry_run: bool) -> None:
    """Write the module that gives hpcmod and a catalogue to users.

    With it, `eb` finds the easyconfigs of the catalogue. The module is written in Lua and Tcl. Prints its directory:
    add it to the MODULEPATH of all users, or announce it.

    \b
    Examples:
      hpcmod site setup --catalogue /appl/containers --dry-run
      hpcmod site setup --catalogue /appl/containers --site /etc/hpcmod/site.toml
      hpcmod site setup --output /appl/hpcmod --eb
    """
    if not catalogues and output is None:
        raise BadInputError("no catalogue and no output directory given", "Add --catalogue DIR or --output DIR.")
    opened = [open_catalogue(directory.absolute()) for directory in catalogues]
    target = output.absolute() if output else opened[0].directory / "site"
    completions = {shell: completion_script(shell) for shell in COMPLETION}
    profile, profiles = _checked_site(site)
    files = list(setup_files(target, opened, completions=completions, site=profile, eb=eb))
    if dry_run:
        for file in files:
            print_text(f"{file.path} ({file.text.count(chr(10))} lines)")
        return
    write_setup(files)
    modules = target / "modules"
    print_data(modules)
    print_message(f"users run: module use {sh_word(str(modules))}; module load hpcmod")
    for closed, path in find_closed_to_users(profiles, target).items():
        how = "-R go+rX" if closed == path or Path(sys.prefix) in (closed, *closed.parents) else "go+x"
        mode = closed.stat().st_mode & 0o777
        tell(f"not all users may read {path}: mode {mode:o} of {closed}. Open it: chmod {how} {sh_word(str(closed))}")


def _checked_site(asked: str | None) -> tuple[str, tuple[Path, ...]]:
    """Check that a profile can be read; return a file's absolute path, because users work in other directories.

    Also return the files that it is read from.
    """
    if not asked:
        return "", ()
    sources = (Path(profile.source) for profile in find_machine(None, {}, flag=asked).profiles)
    files = tuple(source.absolute() for source in sources if source.is_file())
    return str(Path(asked).absolute()) if Path(asked).is_file() else asked, files
