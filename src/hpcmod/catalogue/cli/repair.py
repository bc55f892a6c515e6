"""The command `hpcmod repair`: restore the files of one of your installations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from hpcmod.catalogue.cli.containers import Here, container_argument, find_broken, look_around
from hpcmod.catalogue.cli.installed import find_writable, reinstall, reinstall_command
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.findings import print_findings
from hpcmod.core.cli.output import json_option, print_json, print_text, tell
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.progress import ProgressLine
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.finding import FAIL, Finding
from hpcmod.modules import Installed, check_installation, clear_parts, exit_code_of, find_in_trees
from hpcmod.modules.values.install_record import IMAGE


@dataclass(frozen=True)
class RepairResult:
    """The repaired files of an installation."""

    dry_run: bool
    module: str
    root: Path
    """Directory of the installation."""
    status: int
    """Exit status of this command."""
    damage: tuple[Finding, ...]
    """What was damaged."""
    left: tuple[Finding, ...]
    """What still is."""


@click.command("repair")
@container_argument
@click.option("--dry-run", is_flag=True, help="Print what is damaged and the command that would run; change nothing.")
@site_option
@json_option(RepairResult)
def repair_verb(container: str, dry_run: bool, site: str | None, as_json: bool) -> None:
    """Restore missing or changed files of one of your installations.

    Scripts, wrappers and the modulefile are written again. The image is kept if it is intact, else copied or fetched
    again from its source. Your own packages are not touched.

    \b
    Examples:
      hpcmod repair PyTorch
      hpcmod repair --dry-run PyTorch/2.7.1-rocm-6.2.4-singularity
    """
    here = look_around(site)
    own = find_broken(here, container) or find_writable(here, container)
    damage = _find_failures(own)
    status, left = 0, damage
    if not (damage or dry_run):  # an interrupted repair may have restored everything
        clear_parts(own.root)
        clear_leftovers(own.modulefile.parent)
    if damage and not dry_run:
        keep = not any(finding.subject == IMAGE for finding in damage)
        status = reinstall(here, own, site, keep_image=keep)
        left = _find_failures(_read_again(own))
        status = status or (exit_code_of(left) if left else 0)
    if as_json:
        print_json(RepairResult(dry_run, own.module, own.root, status, tuple(damage), tuple(left)))
    else:
        _print(here, own, damage, left, dry_run=dry_run)
    sys.exit(status)


def _find_failures(own: Installed) -> list[Finding]:
    with ProgressLine(own.module) as progress:
        found = list(check_installation(own, progress))
    return [replace(finding, cure="") for finding in found if finding.level == FAIL]


def _read_again(own: Installed) -> Installed:
    return next(find_in_trees([own.modulefile.parents[own.module.count("/")]], own.module), own)


def _print(here: Here, own: Installed, damage: Sequence[Finding], left: Sequence[Finding], *, dry_run: bool) -> None:
    if not damage:
        tell(f"{own.module}: nothing to repair in {own.root}")
        return
    print_findings(left)
    if dry_run:
        print_text(" ".join(map(sh_word, reinstall_command(here, own))))
        return
    subjects = {finding.subject for finding in damage} - {finding.subject for finding in left}
    if subjects:
        tell(f"repaired {own.module}: {', '.join(sorted(subjects))}")
