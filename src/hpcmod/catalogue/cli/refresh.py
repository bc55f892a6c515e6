"""The command `hpcmod catalogue refresh`: bring published containers up to date with the site profile."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from hpcmod.catalogue.admin.refresh import RefreshResult, Wanted, refresh_containers
from hpcmod.catalogue.cli.containers import complete_container
from hpcmod.catalogue.cli.options import changing_options, make_actor, open_catalogues
from hpcmod.catalogue.finding.find import choose_records
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import print_json, print_text, tell
from hpcmod.core.errors import CheckFailedError
from hpcmod.machine import find_machine


@click.command()
@click.argument("names", metavar="[NAME[/VERSION]]...", nargs=-1, shell_complete=complete_container)
@site_option
@changing_options(RefreshResult)
def refresh(
    names: tuple[str, ...], site: str | None, directory: Path | None, reason: str | None, dry_run: bool, as_json: bool
) -> None:
    """Regenerate modules and scripts with the current site profile and hpcmod; images do not change.

    Users are not interrupted: the old module works until the new one is in place. Everything is recorded as one change,
    which `hpcmod catalogue undo` reverts. Retired containers are skipped unless you name their version. With names and
    --site, containers that were published with another profile change to that one.

    \b
    Examples:
      hpcmod catalogue refresh --dry-run
      hpcmod catalogue refresh PyTorch -m "new bind for /scratch2"
      hpcmod catalogue refresh PyTorch --site ours.toml -m "this machine has a profile now"
    """
    catalogue = open_catalogues(directory)[0]
    found = find_machine(None, os.environ, flag=site).site
    wanted, records = Wanted(found, os.environ, bool(site and names)), choose_records(catalogue, names)
    done = refresh_containers(catalogue, records, wanted, actor=make_actor(reason), dry_run=dry_run)
    if as_json:
        print_json(done)
    else:
        _show(done)
    if done.faults:
        sys.exit(CheckFailedError.exit_code)


def _show(done: RefreshResult) -> None:
    for module in done.changed:
        print_text(f"{module.module}: {_count(module.files) or 'only its profile'}")
        for line in module.lines if done.dry_run else ():
            print_text(f"  {line}")
    for fault in done.faults:
        tell(f"not changed: {fault.message}. {fault.cure}".rstrip())
    if done.change:
        tell(f"change {done.change}; to revert it: hpcmod catalogue undo {done.change}")
    elif not done.changed and not done.faults:
        tell("modules and scripts are already up to date")


def _count(files: tuple[str, ...]) -> str:
    modules = [file for file in files if file.startswith("module ")]
    scripts = len(files) - len(modules)
    return ", ".join([*modules, *([f"{scripts} script{'s' * (scripts > 1)}"] if scripts else [])])
