"""Change a catalogue: one writer at a time, all of a change or none of it, and a line in the journal.

A change is described on disk (`pending.json`) before it starts. The next process that takes the lock finishes what a
killed process has begun; a change that fails, for example on a full disk, is rolled back.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hpcmod.catalogue.records.index import INDEX, PACKAGES, write_index
from hpcmod.catalogue.records.journal import append_change, last_change, read_journal
from hpcmod.catalogue.records.sharing import check_writable, file_mode, shared
from hpcmod.catalogue.records.store import RESTORE, Catalogue
from hpcmod.catalogue.storage.trash import Move, move_to_trash, moves_out
from hpcmod.catalogue.values.journal import Change, Key, Records, make_edits, replay
from hpcmod.catalogue.values.record import CatalogueRecord, check_record, record_json
from hpcmod.catalogue.visible.modulefiles import update_visible
from hpcmod.catalogue.visible.notices import write_notices
from hpcmod.core.clock import now_text
from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.lock import hold
from hpcmod.core.log import Logger
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.json_form import json_form, parse_json

_LOG = Logger(__name__)

_LIMIT = 256 << 20  # bytes of pending.json
_RESERVE, _MIB = "reserve", 1 << 20
_SIZED = (f".locks/{_RESERVE}", INDEX, PACKAGES)


@dataclass(frozen=True)
class Actor:
    """Who changes a catalogue, and why."""

    who: str
    """As user@host."""
    why: str = ""
    tell: Callable[[str], None] = lambda _: None
    """Called with a line for the user."""


@contextmanager
def changing(catalogue: Catalogue, actor: Actor, *, frees: bool = False) -> Iterator[None]:
    """Keep out all other writers while the block runs, after finishing the change of a killed one.

    `frees`: Whether the change must be possible on a full disk: it gets the space that the others keep free for it.

    Raises LackingError if the user may not change the catalogue.
    """
    check_writable(catalogue)
    if frees:
        with suppress(OSError):
            catalogue.tree.remove(catalogue.locks / _RESERVE)
    with (
        shared(catalogue),
        hold(
            catalogue.locks / "catalogue.lock",
            tell=actor.tell,
            on_stale=lambda: _clear(catalogue),
            below=catalogue.directory,
        ),
    ):
        _finish_pending(catalogue, actor)
        try:
            yield
        finally:
            _reserve_space(catalogue)


def _reserve_space(catalogue: Catalogue) -> None:
    """Keep space for a lock, a journal and new indexes, if the disk has it; random bytes cannot be compressed away."""
    sizes = {path: path.stat().st_size for path in map(catalogue.directory.joinpath, _SIZED) if path.is_file()}
    kept = sizes.pop(catalogue.locks / _RESERVE, 0)
    size = _MIB * (1 + 2 * sum(sizes.values()) // _MIB)
    while size > kept:
        with suppress(OSError):
            content = random.Random(0).randbytes(size)  # noqa: S311 - the same in each run, for tests
            catalogue.tree.write(catalogue.locks / _RESERVE, content, mode=0o600)
            return
        size = size // 2 if size > _MIB // 16 else 0


def is_unfinished(catalogue: Catalogue) -> bool:
    """Return whether a process left a change that the next one to take the lock finishes."""
    return os.path.lexists(catalogue.directory / _PENDING)


def commit(
    catalogue: Catalogue,
    new: Records,
    *,
    verb: str,
    actor: Actor,
    undoes: int = 0,
    removed: Sequence[str] = (),
) -> Change:
    """Carry out a change within `changing`: readers see all of it or none, and it is rolled back if it fails.

    `new`: The new records by container; None removes one.
    `undoes`: ID of the change that this one reverts; 0 for none.
    `removed`: Paths below the catalogue's directory to remove.
    """
    old = {key: catalogue.find(*key) for key in new}
    edits = make_edits(old, new)
    number = last_change(catalogue.directory) + 1
    change = Change(number, now_text(), actor.who, verb, actor.why, edits, undoes)
    moves = moves_out(number, removed)
    if not edits and not moves:
        return change
    changed = {edit.key: new[edit.key] for edit in edits}
    pending = catalogue.directory / _PENDING
    records = tuple(_NewRecord(*key, record) for key, record in sorted(changed.items()))
    text = json.dumps(json_form(_Pending(change, records, tuple(moves))), sort_keys=True) + "\n"
    _LOG.info("change %d of %s: %s", number, catalogue.directory, _described(change))
    try:
        catalogue.tree.write(pending, text, mode=file_mode(catalogue.directory))
        _apply(catalogue, changed, moves, actor)
        append_change(catalogue.directory, change, mode=file_mode(catalogue.directory))
    except BaseException as err:  # a full disk, Ctrl-C: restore the former state
        _LOG.info("change %d failed and was rolled back: %s", number, err)
        with suppress(OSError, HpcmodError):  # on failure, the next writer completes it
            if last_change(catalogue.directory) < change.id:  # once its line is in the journal, the change is complete
                _apply(catalogue, {key: old[key] for key in changed}, [move.reversed for move in moves], actor)
            catalogue.tree.remove(pending)
        raise
    catalogue.tree.remove(pending)
    _LOG.info("change %d is done", number)
    return change


_PENDING = "pending.json"


@dataclass(frozen=True)
class _NewRecord:
    """What a change makes of a record; None removes it."""

    name: str
    version: str
    record: CatalogueRecord | None = None


@dataclass(frozen=True)
class _Pending:
    """A change that has begun."""

    change: Change
    records: tuple[_NewRecord, ...]
    moves: tuple[Move, ...]


def _described(change: Change) -> str:
    return f"{change.verb} {', '.join(change.modules) or 'files'}"


def _finish_pending(catalogue: Catalogue, actor: Actor) -> None:
    path = catalogue.directory / _PENDING
    try:
        text = catalogue.read_file(path, _LIMIT)
    except FileNotFoundError:
        return
    pending = parse_json(_Pending, text, str(path), limit=_LIMIT)
    change = pending.change
    _LOG.info("finishing change %d of %s: %s", change.id, change.who, _described(change))
    actor.tell(f"finishing change {change.id} ({change.verb} {', '.join(change.modules)}) of {change.who}")
    for record in (each.record for each in pending.records if each.record):
        check_record(record, str(path))
    _apply(catalogue, {(each.name, each.version): each.record for each in pending.records}, pending.moves, actor)
    if last_change(catalogue.directory) < change.id:
        append_change(catalogue.directory, change, mode=file_mode(catalogue.directory))
    catalogue.tree.remove(path)


def _apply(catalogue: Catalogue, records: Records, moves: Sequence[Move], actor: Actor) -> None:
    """Rename files, write records, and regenerate everything derived from them; repeating it changes nothing."""
    move_to_trash(catalogue, moves)
    for (name, version), record in records.items():
        path = catalogue.record_path(name, version)
        if record is None:
            catalogue.tree.remove(path)
        else:
            catalogue.tree.make_directory(path.parent)
            catalogue.tree.write(path, record_json(record), mode=file_mode(catalogue.directory))
    _update(catalogue, {name for name, _ in records}, actor)


def write_note(catalogue: Catalogue, verb: str, what: str, actor: Actor) -> None:
    """Append a line to the journal, within `changing`, about a change that edited no record."""
    why = f"{actor.why}: {what}" if actor.why else what
    change = Change(last_change(catalogue.directory) + 1, now_text(), actor.who, verb, why, ())
    append_change(catalogue.directory, change, mode=file_mode(catalogue.directory))


def find_lost(catalogue: Catalogue) -> dict[Key, CatalogueRecord | None]:
    """Return the containers whose record is missing or damaged, with what the journal has; None if it lacks it."""
    journal = replay(read_journal(catalogue.directory))
    return {key: journal.get(key) for key in sorted({*journal, *catalogue.containers()}) if _is_lost(catalogue, key)}


def _is_lost(catalogue: Catalogue, key: Key) -> bool:
    try:
        return catalogue.find(*key) is None
    except BadInputError as err:
        return err.cure == RESTORE  # not one of a later hpcmod, or that this user may not read


def restore_lost(catalogue: Catalogue, actor: Actor) -> None:
    """Write, within `changing`, records that are missing or damaged as the journal has them.

    Raises BadInputError if the journal lacks one.
    """
    for key, record in find_lost(catalogue).items():
        path = catalogue.record_path(*key)
        if record is None:
            again = f"rm {sh_word(str(path))}; then publish its image again, with the options of then"
            raise BadInputError(f"{path}: damaged, and not in the journal", f"Restore it from a backup; or: {again}")
        catalogue.tree.make_directory(path.parent)
        catalogue.tree.write(path, record_json(record), mode=file_mode(catalogue.directory))
        actor.tell(f"restored from the journal: {path}")


def refresh_index(catalogue: Catalogue, actor: Actor) -> None:
    """Regenerate, within `changing`, everything that is derived from the records."""
    _LOG.info("regenerating everything of %s", catalogue.directory)
    _update(catalogue, {name for name, _ in catalogue.containers()}, actor, anew=True)


def _update(catalogue: Catalogue, names: set[str], actor: Actor, *, anew: bool = False) -> None:
    update_visible(catalogue, names, anew=anew)
    write_index(catalogue, anew=anew)
    write_notices(catalogue, tell=actor.tell)


def _clear(catalogue: Catalogue) -> None:
    places = (catalogue.records_directory, catalogue.modules.parent, catalogue.easyconfigs, catalogue.notices)
    for directory in (catalogue.directory, *_directories(*places, catalogue.kept)):
        clear_leftovers(directory, alone=True)
    for directory in _directories(catalogue.software):
        clear_leftovers(directory)  # not alone: publishing copies to it without the catalogue's lock


def _directories(*places: Path) -> Iterator[Path]:
    for place in places:
        yield from (Path(directory) for directory, _, _ in os.walk(place))
