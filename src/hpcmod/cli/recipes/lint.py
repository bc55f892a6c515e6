"""The command `hpcmod lint`: find mistakes in batch scripts, easyconfigs and other container recipes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from hpcmod import machine
from hpcmod.check.easyconfigs.context import ERROR, EasyconfigFault, fault
from hpcmod.check.easyconfigs.files import find_recipes, read_recipe
from hpcmod.check.easyconfigs.lint import lint_easyconfig
from hpcmod.check.jobs.files import is_batch_script, read_batch_file
from hpcmod.check.jobs.lint import lint_job
from hpcmod.cli.containers import complete_site
from hpcmod.cli.output import print_data, print_message, print_text
from hpcmod.errors import HpcmodError, NotFoundError
from hpcmod.model.site import Site

JSON_VERSION = 1


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--site",
    shell_complete=complete_site,
    help="Name or file of the site profile, for batch scripts (default: this machine).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def lint(paths: Sequence[Path], site: str | None, as_json: bool) -> None:
    """Find mistakes in batch scripts, easyconfigs and shpc recipes.

    Files are read, never run. In batch scripts: options that Slurm misreads, ranks that do not find each other, idle
    GPUs, images without their module. In recipes: names that do not load, missing checksums, moving tags. Directories
    x searched for recipes. Exit code 1 if there are errors; warnings alone are 0.

    \b
    Examples:
      hpcmod lint train.sh
      hpcmod lint --site lumi train.sh
      hpcmod lint easyconfigs
      hpcmod lint LUMI-EasyBuild-containers/easybuild/easyconfigs --json
      hpcmod lint ~/shpc-registry/quay.io
    """
    files = [path for named in paths for path in find_recipes(_check_exists(named))]
    wanted = site is not None or any(is_batch_script(path) for path in files)
    profile = machine.load_site(site, {} if site else os.environ) if wanted else Site("")
    found = {path: _lint(path, profile) for path in files}
    if as_json:
        listed = [{"file": str(path), "faults": [asdict(one) for one in faults]} for path, faults in found.items()]
        print_data(json.dumps({"version": JSON_VERSION, "files": listed}, indent=1))
    else:
        for path, faults in found.items():
            for one in faults:
                head = f"{path}:{one.line}: {one.level}: {one.rule}: {one.what}".replace("\n", "?")
                print_text(head + (f"\n    {one.cure}" if one.cure else ""))
    levels = [one.level for faults in found.values() for one in faults]
    errors = levels.count(ERROR)
    print_message(f"{len(found)} files read: {errors} errors, {len(levels) - errors} warnings")
    sys.exit(bool(errors))


def _check_exists(path: Path) -> Path:
    if not path.exists():
        raise NotFoundError(f"{path}: no such file", "Give batch scripts, easyconfigs, or directories of easyconfigs.")
    return path


def _lint(path: Path, site: Site) -> tuple[EasyconfigFault, ...]:
    """Return the mistakes in one file; an unreadable file counts as a mistake, so that the others are still read."""
    try:
        if is_batch_script(path):
            faults = lint_job(read_batch_file(path), site)
            return tuple(fault(one.line, one.rule, ERROR, one.what, one.cure) for one in faults)
        text = read_recipe(path)
    except HpcmodError as err:
        return (fault(1, "does-not-load", ERROR, err.message.removeprefix(f"{path}: "), err.cure),)
    return lint_easyconfig(text, path)
