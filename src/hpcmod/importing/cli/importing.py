"""The command `hpcmod import`: make easyconfigs from recipes in other formats."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

import click

from hpcmod.core.cli.groups import CommandGroup
from hpcmod.core.cli.output import json_option, print_json, print_message, print_text
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.progress import ProgressLine
from hpcmod.importing.formats import FORMATS, ImportFormat, ImportOption, load_format
from hpcmod.importing.outcome import Outcome
from hpcmod.importing.writing import CONVERTED, EXISTS, REFUSED, UNCHANGED, ImportRow, write_easyconfigs

_LISTED = 20
"""Recipes up to which the output lists each with its remarks."""

_ROWS = 20
"""Lines of a table of remarks: all tables together are at most two screens."""

_FILES = 3
_COMMON = re.compile(r"((?:(?:not carried over|changed|note): )?[^:;(]*).*", re.DOTALL)
_WIDEST = 140  # characters of a line


class _Formats(CommandGroup):
    """A subcommand for each format, which is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all formats."""
        return list(FORMATS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _make_command(cmd_name, load_format(cmd_name)) if cmd_name in FORMATS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Choose the format by the file's name if a file is given instead of a format."""
        if args[0] not in FORMATS and not ctx.resilient_parsing:
            args = [_format_of(args[0]), *args]
        return super().resolve_command(ctx, args)


def _format_of(given: str) -> str:
    """Return the format of a file by its name.

    Raises BadInputError if no format has such files.
    """
    guessed = next((name for name, suffix in FORMATS.items() if given.endswith(suffix)), "")
    if not guessed:
        known = ", ".join(f"{name} ({suffix})" for name, suffix in FORMATS.items())
        raise BadInputError(
            f"{given}: neither a format nor a file that hpcmod import reads: {known}",
            "Directories and other file names need the format: hpcmod import FORMAT PATH. "
            "Dockerfiles and definition files: use hpcmod build. Batch scripts: use hpcmod lint, and hpcmod job.",
        )
    return guessed


@dataclass(frozen=True)
class ImportResult:
    """Easyconfigs converted from recipes of other tools."""

    dry_run: bool
    converted: int
    unchanged: int
    exists: int
    """Another easyconfig exists, and is kept."""
    refused: int
    recipes: tuple[ImportRow, ...]


@click.group("import", cls=_Formats)
def importing() -> None:
    """Make easyconfigs from recipes of other tools, or a SIF.

    Without a format, the file's name decides. The recipes are read, never run.
    More than 20 recipes: equal remarks are grouped. Each easyconfig has its own at the top, and --json has all.
    Exit code 1: a recipe was refused, or a different easyconfig already exists.

    \b
    Examples:
      hpcmod import lumi-eb LUMI-EasyBuild-containers/easybuild/easyconfigs --output ours
      hpcmod import shpc ~/shpc-registry --dry-run
      hpcmod import ngc ngc-container-environment-modules
      hpcmod import edf ~/.edf
      hpcmod import sif /shared/images
    """


def _make_command(name: str, loaded: ImportFormat) -> click.Command:
    """Return the subcommand of a format."""
    examples = "\n".join(f"  hpcmod import {name} {example}" for example in loaded.examples)

    @click.command(name, help=f"{loaded.summary}\n\n\b\nExamples:\n{examples}")
    @click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
    @click.option(
        "-o",
        "--output",
        default="easyconfigs",
        metavar="DIRECTORY",
        type=click.Path(path_type=Path, file_okay=False),
        help="Directory for the easyconfigs, laid out as a robot path (default: easyconfigs).",
    )
    @click.option("--force", is_flag=True, help="Replace existing easyconfigs.")
    @click.option("--dry-run", is_flag=True, help="Print the result for each recipe; write nothing.")
    @json_option(ImportResult)
    def convert(
        paths: Sequence[Path], output: Path, force: bool, dry_run: bool, as_json: bool, **own: bool | str
    ) -> None:
        outcomes = loaded.convert(_check_exist(paths), ProgressLine, **own)
        _import(name, outcomes, output=output, force=force, dry_run=dry_run, as_json=as_json)

    convert.params[1:1] = [_make_option(option) for option in loaded.options]
    return convert


def _make_option(option: ImportOption) -> click.Option:
    if option.metavar:
        return click.Option([f"--{option.name}"], metavar=option.metavar, default="", help=option.help)
    return click.Option([f"--{option.name}"], is_flag=True, help=option.help)


def _check_exist(paths: Sequence[Path]) -> Sequence[Path]:
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise NotFoundError(
            f"{missing[0]}: no such file or directory", "Give recipes, or directories to search for them."
        )
    return paths


def _import(kind: str, outcomes: Iterable[Outcome], *, output: Path, force: bool, dry_run: bool, as_json: bool) -> None:
    rows = list(write_easyconfigs(outcomes, output, verb=f"hpcmod import {kind}", force=force, dry_run=dry_run))
    counts = Counter(row.status for row in rows)
    if as_json:
        result = ImportResult(
            dry_run,
            converted=counts[CONVERTED],
            unchanged=counts[UNCHANGED],
            exists=counts[EXISTS],
            refused=counts[REFUSED],
            recipes=tuple(rows),
        )
        print_json(result)
    elif len(rows) <= _LISTED:
        for row in rows:
            _show(row)
    else:
        _show_groups(rows)
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
    lines += [f"          {remark}" for remark in _remarks(row)]
    for line in lines:
        print_text(line.replace("\n", "?"))


def _remarks(row: ImportRow) -> list[str]:
    return [
        *(f"not carried over: {clause}" for clause in row.left_out),
        *(f"changed: {clause}" for clause in row.changed),
        *(f"note: {clause}" for clause in row.notes),
    ]


def _show_groups(rows: Sequence[ImportRow]) -> None:
    """Print how many recipes have each remark, and how many were refused for each reason, and which."""
    _show_counts("In the easyconfigs:", [(remark, "") for row in rows for remark in dict.fromkeys(_remarks(row))])
    _show_counts("Refused:", [(row.reason, row.origin) for row in rows if row.reason])
    kept = [row.path for row in rows if row.status == EXISTS]
    _show_counts("Kept:", [("another easyconfig exists, and --force replaces it", path) for path in kept])


def _show_counts(title: str, remarks: Iterable[tuple[str, str]]) -> None:
    """Print texts with their number and the first files, the most frequent text first.

    Notes
    -----
    Texts that differ only after a colon, semicolon or parenthesis count as one: what follows is particular to a recipe.
    """
    groups = dict[str, list[tuple[str, str]]]()
    for text, file in remarks:
        groups.setdefault(_COMMON.sub(r"\1", text).strip(), []).append((text, file))
    ranked = sorted(groups.items(), key=lambda group: -len(group[1]))
    if ranked:
        print_text(title)
    for head, members in ranked[:_ROWS]:
        texts = {text for text, _ in members}
        files = [file for _, file in members if file]
        line = (texts.pop() if len(texts) == 1 else head).replace("\n", "?")
        print_text(f"{len(members):6}  {shorten(line, _WIDEST, placeholder='...')}")
        for file in files[:_FILES]:
            print_text(f"{'':10}{file}")
        if len(files) > _FILES:
            print_text(f"{'':10}and {len(files) - _FILES} more")
    rest = sum(len(members) for _, members in ranked[_ROWS:])
    if rest:
        print_text(f"{rest:6}  others: see the top of each easyconfig, or --json")
