"""The verb lint: mistakes in recipes of containers, ours and other people's."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from hpcmod.check.easyconfigs.files import find_recipes, read_recipe
from hpcmod.check.easyconfigs.lint import lint_recipe
from hpcmod.check.easyconfigs.look import ERROR, RecipeFault, fault
from hpcmod.errors import HpcmodError, NotFoundError
from hpcmod.render.quote import terminal

JSON_VERSION = 1


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def lint(paths: Sequence[Path], as_json: bool) -> None:
    """Find mistakes in easyconfigs, ours and LUMI's, and in recipes of shpc.

    They are read, never run. What is found: names that do not load or are not the file's, versions that drifted apart,
    missing checksums, moving tags, binds that are not here, empty elements of paths, fixed ports. Exit code 1: there
    are errors; warnings alone are 0.

    \b
    Examples:
      hpcmod lint easyconfigs
      hpcmod lint LUMI-EasyBuild-containers/easybuild/easyconfigs --json
      hpcmod lint ~/shpc-registry/quay.io
    """
    found = {path: _lint(path) for named in paths for path in find_recipes(_there(named))}
    if as_json:
        files = [{"file": str(path), "faults": [asdict(one) for one in faults]} for path, faults in found.items()]
        click.echo(json.dumps({"version": JSON_VERSION, "files": files}, indent=1))
    else:
        for path, faults in found.items():
            for one in faults:
                head = f"{path}:{one.line}: {one.level}: {one.rule}: {one.what}".replace("\n", "?")
                click.echo(terminal(head + (f"\n    {one.cure}" if one.cure else "")))
    levels = [one.level for faults in found.values() for one in faults]
    errors = levels.count(ERROR)
    click.echo(f"{len(found)} looked at: {errors} errors, {len(levels) - errors} warnings", err=True)
    sys.exit(bool(errors))


def _there(path: Path) -> Path:
    if not path.exists():
        raise NotFoundError(f"there is no {path}", "Name recipes, or directories to look below.")
    return path


def _lint(path: Path) -> tuple[RecipeFault, ...]:
    """Find the mistakes in one of them; one that cannot be read is a mistake, and no end of the others."""
    try:
        text = read_recipe(path)
    except HpcmodError as err:
        return (fault(1, "does-not-load", ERROR, err.message.removeprefix(f"{path}: "), err.cure),)
    return lint_recipe(text, path)
