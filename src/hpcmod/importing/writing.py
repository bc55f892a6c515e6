"""Write easyconfigs converted from foreign recipes where EasyBuild's robot finds them; replace none without --force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.core.errors import HpcmodError
from hpcmod.core.fs.reading import read_file
from hpcmod.core.fs.tree import write_file
from hpcmod.importing.outcome import ImportedEasyconfig, Outcome, Refused
from hpcmod.modules import render_easyconfig

_LIMIT = 4 << 20  # bytes of an easyconfig

CONVERTED, UNCHANGED, EXISTS, REFUSED = "converted", "unchanged", "exists", "refused"


@dataclass(frozen=True)
class ImportRow:
    """Result for one recipe."""

    status: str
    """converted; unchanged: the same file already exists; exists: another file exists and is kept; refused."""
    origin: str
    module: str = ""
    path: str = ""
    """Path of the easyconfig."""
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """What has a different effect than in the recipe."""
    carried: tuple[str, ...] = ()
    """What is in the easyconfig, by the names of its parameters."""
    reason: str = ""
    """Reason for a refusal."""


def write_easyconfigs(
    outcomes: Iterable[Outcome], directory: Path, *, verb: str, force: bool = False, dry_run: bool = False
) -> Iterator[ImportRow]:
    """Write the converted easyconfigs, each atomically, and yield a row for each recipe when it is done.

    `verb`: The command that made them, for the comment at the top of each.
    `force`: Replace a file with different content, but none that this call has written: of two recipes for one module,
        the second is refused.
    `dry_run`: Only report the results, and write nothing.

    Raises OSError if the directory cannot be written to.
    """
    made: dict[str, str] = {}  # origins by module
    for outcome in outcomes:
        if isinstance(outcome, Refused):
            yield ImportRow(REFUSED, outcome.origin, reason=outcome.reason)
            continue
        module = outcome.easyconfig.module
        if module in made:
            yield ImportRow(REFUSED, outcome.origin, reason=_twin(outcome, made[module]))
            continue
        try:
            text = render_easyconfig(replace(outcome.easyconfig, comments=tuple(_comments(outcome, verb))))
        except HpcmodError as err:
            yield ImportRow(REFUSED, outcome.origin, reason=err.message)
            continue
        made[module] = outcome.origin
        path = directory / outcome.easyconfig.path
        status = _status(path, text, force=force)
        if status == CONVERTED and not dry_run:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, text)
        yield ImportRow(
            status,
            outcome.origin,
            module,
            str(path),
            outcome.left_out,
            outcome.notes,
            outcome.changed,
            outcome.carried,
        )


def _twin(outcome: ImportedEasyconfig, other: str) -> str:
    cure = "--full-names keeps tools of two sources apart" if outcome.namespace else "give one of them another version"
    return f"another recipe makes the same module; {cure}: {outcome.easyconfig.module} is made by {other}"


def _comments(outcome: ImportedEasyconfig, verb: str) -> Iterator[str]:
    yield f"made by {verb} from {outcome.origin}"
    yield from (f"not carried over: {clause}" for clause in outcome.left_out)
    yield from (f"changed: {clause}" for clause in outcome.changed)
    yield from outcome.notes


def _status(path: Path, text: str, *, force: bool) -> str:
    try:
        there = read_file(path, _LIMIT)
    except FileNotFoundError:
        return CONVERTED
    if there == text.encode():
        return UNCHANGED
    return CONVERTED if force else EXISTS
