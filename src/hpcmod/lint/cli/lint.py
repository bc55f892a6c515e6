"""The command `hpcmod lint`: find mistakes in batch scripts and easyconfigs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.findings import print_findings
from hpcmod.core.cli.output import json_option, print_json, print_message
from hpcmod.core.errors import HpcmodError, NotFoundError
from hpcmod.core.values.finding import FAIL, Finding
from hpcmod.lint.easyconfigs.lint import installs_a_container, lint_easyconfig
from hpcmod.lint.jobs.files import is_batch_script, read_batch_file
from hpcmod.lint.jobs.lint import lint_job
from hpcmod.machine import load_site
from hpcmod.machine.values.site import Site
from hpcmod.modules import find_recipes, read_recipe


@dataclass(frozen=True)
class LintedFile:
    """A file that was given, or found in a directory."""

    file: Path
    findings: tuple[Finding, ...]
    skipped: str = ""
    """Why it was not checked; empty: it was."""


@dataclass(frozen=True)
class LintResult:
    """Mistakes in files."""

    site: str
    """Name of the site profile; empty: no file needed one."""
    files: tuple[LintedFile, ...]


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@site_option
@json_option(LintResult)
def lint(paths: Sequence[Path], site: str | None, as_json: bool) -> None:
    """Find mistakes in batch scripts and easyconfigs.

    Files are read, never run; the kind of a file follows from its name and first lines. In batch scripts: options
    that Slurm misreads, ranks that do not find each other, idle GPUs, images without their module. In easyconfigs:
    names that do not load, missing checksums, moving tags. Directories are searched for easyconfigs; other files are
    skipped. Exit code 1 if there are failures.

    \b
    Examples:
      hpcmod lint train.sh
      hpcmod lint --site lumi train.sh
      hpcmod lint easyconfigs --json
    """
    if missing := [path for path in paths if not path.exists()]:
        cure = "Name batch scripts, easyconfigs, or directories of easyconfigs."
        raise NotFoundError(f"{missing[0]}: no such file", cure)
    files = [path for given in paths for path in find_recipes(given, ".eb")]
    wanted = site is not None or any(map(is_batch_script, files))
    profile = load_site(site, {} if site else os.environ) if wanted else Site("")
    linted = [_lint(path, profile) for path in files]
    findings = [finding for file in linted for finding in file.findings]
    if as_json:
        print_json(LintResult(profile.name, tuple(linted)))
    else:
        print_findings(findings)
    for reason in dict.fromkeys(file.skipped for file in linted if file.skipped):
        paths = [file.file for file in linted if file.skipped == reason]
        print_message(f"{paths[0] if len(paths) == 1 else f'{len(paths)} files'}: skipped: {reason}")
    failures = sum(finding.level == FAIL for finding in findings)
    checked = sum(not file.skipped for file in linted)
    print_message(f"files read: {checked}, errors: {failures}, warnings: {len(findings) - failures}")
    sys.exit(bool(failures))


def _lint(path: Path, site: Site) -> LintedFile:
    """Return the mistakes in one file; an unreadable file counts as a mistake, so that the others are still read."""
    is_script = is_batch_script(path)
    if not is_script and path.suffix != ".eb":
        return LintedFile(path, (), "not a batch script or easyconfig (a site profile: hpcmod site check)")
    try:
        text = read_batch_file(path) if is_script else read_recipe(path)
    except HpcmodError as err:
        cause = err.message.removeprefix(f"{path}: ")
        return LintedFile(path, (Finding(FAIL, "does-not-load", cause, err.cure, subject=str(path), line=1),))
    if not is_script and not installs_a_container(text):
        return LintedFile(path, (), "installs no container")
    findings = lint_job(text, site) if is_script else lint_easyconfig(text, path)
    return LintedFile(path, tuple(replace(finding, subject=str(path)) for finding in findings))
