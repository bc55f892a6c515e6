"""The command `hpcmod import`: make easyconfigs from recipes in other formats, or report why that is not possible."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from hpcmod.cli.output import print_json, print_message, print_text
from hpcmod.errors import NotFoundError
from hpcmod.importing.lumi_eb import import_lumi_eb
from hpcmod.importing.ngc import import_ngc
from hpcmod.importing.outcome import Outcome
from hpcmod.importing.shpc import import_shpc
from hpcmod.importing.sif import import_sif
from hpcmod.importing.writing import CONVERTED, EXISTS, REFUSED, UNCHANGED, ImportRow, write_easyconfigs
from hpcmod.progress import ProgressLine

_Verb = Callable[..., Any]


def _options(verb: _Verb) -> _Verb:
    """Add the arguments and options of all subcommands of import."""
    for option in (
        click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path)),
        click.option(
            "--output",
            default="easyconfigs",
            metavar="DIR",
            type=click.Path(path_type=Path, file_okay=False),
            help="Directory for the easyconfigs, laid out as a robot path (default: easyconfigs).",
        ),
        click.option("--force", is_flag=True, help="Replace existing easyconfigs."),
        click.option("--dry-run", is_flag=True, help="Print the result for each recipe; write nothing."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ):
        verb = option(verb)
    return verb


@click.group("import")
def importing() -> None:
    """Make easyconfigs from recipes of LUMI, shpc or NGC, or a SIF.

    The recipes are read, never run. Exit code 1: a recipe was refused, or a different easyconfig already exists.

    \b
    Examples:
      hpcmod import lumi-eb LUMI-EasyBuild-containers/easybuild/easyconfigs --output ours
      hpcmod import shpc ~/shpc-registry --dry-run
      hpcmod import ngc ngc-container-environment-modules
      hpcmod import sif /shared/images
    """


@importing.command("lumi-eb")
@_options
def lumi_eb(paths: Sequence[Path], **options: Any) -> None:
    """Convert easyconfigs in LUMI's style (MakeCp and shell scripts), without running them.

    \b
    Examples:
      hpcmod import lumi-eb LUMI-EasyBuild-containers/easybuild/easyconfigs --output ours
      hpcmod import lumi-eb old.eb --dry-run
    """
    _import("lumi-eb", import_lumi_eb(_check_exist(paths)), **options)


@importing.command("shpc")
@_options
def shpc(paths: Sequence[Path], **options: Any) -> None:
    """Convert recipes of singularity-hpc (container.yaml) to one easyconfig per tag, pinned to its digest.

    \b
    Examples:
      hpcmod import shpc ~/shpc-registry/quay.io --output ours
      hpcmod import shpc container.yaml --dry-run --json
    """
    _import("shpc", import_shpc(_check_exist(paths)), **options)


@importing.command("ngc")
@_options
def ngc(paths: Sequence[Path], **options: Any) -> None:
    """Convert NVIDIA's container modules (NAME/VERSION.lua), without running them.

    \b
    Examples:
      hpcmod import ngc ngc-container-environment-modules --output ours
      hpcmod import ngc modules/pytorch --dry-run
    """
    _import("ngc", import_ngc(_check_exist(paths)), **options)


@importing.command("sif")
@_options
def sif(paths: Sequence[Path], **options: Any) -> None:
    """Make an easyconfig for each SIF, from its name, contents and checksum.

    \b
    Examples:
      hpcmod import sif /shared/images --output ours
      hpcmod import sif pytorch_2.7.1.sif --dry-run
    """
    _import("sif", import_sif(_check_exist(paths), ProgressLine), **options)


def _check_exist(paths: Sequence[Path]) -> Sequence[Path]:
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise NotFoundError(
            f"{missing[0]}: no such file or directory", "Give recipes, or directories to search for them."
        )
    return paths


def _import(kind: str, outcomes: Iterable[Outcome], *, output: Path, force: bool, dry_run: bool, as_json: bool) -> None:
    rows = []
    for row in write_easyconfigs(outcomes, output, verb=f"hpcmod import {kind}", force=force, dry_run=dry_run):
        rows.append(row)
        if not as_json:
            _show(row)
    counts = Counter(row.status for row in rows)
    if as_json:
        counted = {status: counts[status] for status in (CONVERTED, UNCHANGED, EXISTS, REFUSED)}
        table = [asdict(row) for row in rows]
        print_json(dry_run=dry_run, **counted, recipes=table)
    summary = ", ".join(
        f"{counts[status]} {status}" for status in (CONVERTED, UNCHANGED, EXISTS, REFUSED) if counts[status]
    )
    where = "nothing was written (--dry-run)" if dry_run else f"in {output}"
    print_message(f"{summary or 'no recipes found'}; {where}")
    sys.exit(bool(counts[REFUSED] or counts[EXISTS]))


def _show(row: ImportRow) -> None:
    """Print the result for one recipe: a line with its status, and indented notes below."""
    lines = [f"{row.status:9} {row.module or row.origin}"]
    if row.status == EXISTS:
        lines.append(f"          {row.path} exists and differs: --force replaces it")
    if row.reason:
        lines.append(f"          {row.reason}")
    lines += [f"          not carried over: {clause}" for clause in row.left_out]
    lines += [f"          note: {clause}" for clause in row.notes]
    for line in lines:
        print_text(line.replace("\n", "?"))
