"""Write easyconfigs converted from foreign recipes where EasyBuild's robot finds them; replace none without --force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.core.errors import HpcmodError
from hpcmod.core.fs.reading import read_file
from hpcmod.core.fs.tree import write_file
from hpcmod.importing.outcome import ImportedEasyconfig, Outcome, Refused
from hpcmod.modules.text.easyconfig import render_easyconfig

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

    Parameters
    ----------
    verb
        The command that made them, for the comment at the top of each.
    force
        Replace a file with different content, but none that this call has written: of two recipes for one module, the
        second is refused.
    dry_run
        Only report the results, and write nothing.

    Raises
    ------
    OSError
        If the directory cannot be written to.
    """
    made: dict[str, str] = {}  # origins by module
    for one in outcomes:
        if isinstance(one, Refused):
            yield ImportRow(REFUSED, one.origin, reason=one.reason)
            continue
        module = one.easyconfig.module
        if module in made:
            yield ImportRow(REFUSED, one.origin, reason=_twin(one, made[module]))
            continue
        try:
            text = render_easyconfig(replace(one.easyconfig, comments=tuple(_comments(one, verb))))
        except HpcmodError as err:
            yield ImportRow(REFUSED, one.origin, reason=err.message)
            continue
        made[module] = one.origin
        path = directory / one.easyconfig.path
        status = _status(path, text, force=force)
        if status == CONVERTED and not dry_run:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, text)
        yield ImportRow(
            status,
            one.origin,
            module,
            str(path),
            one.left_out,
            one.notes,
            one.changed,
            one.carried,
        )


def _twin(one: ImportedEasyconfig, other: str) -> str:
    cure = "--full-names keeps tools of two sources apart" if one.namespace else "give one of them another version"
    return f"another recipe makes the same module; {cure}: {one.easyconfig.module} is made by {other}"


def _comments(one: ImportedEasyconfig, verb: str) -> Iterator[str]:
    yield f"made by {verb} from {one.origin}"
    yield from (f"not carried over: {clause}" for clause in one.left_out)
    yield from (f"changed: {clause}" for clause in one.changed)
    yield from one.notes


def _status(path: Path, text: str, *, force: bool) -> str:
    try:
        there = read_file(path, _LIMIT)
    except FileNotFoundError:
        return CONVERTED
    if there == text.encode():
        return UNCHANGED
    return CONVERTED if force else EXISTS
