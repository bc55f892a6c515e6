"""The admin's commands on published containers: decide from the records of a name, preview or apply it, and undo it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from hpcmod.catalogue.change import Actor, changing, commit
from hpcmod.catalogue.publishing.terms import set_readers
from hpcmod.catalogue.records.journal import find_change, last_change, read_journal
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.journal import Change, Records, find_undoable, make_edits, make_undo
from hpcmod.catalogue.values.lifecycle import check_leads, key_of
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.verify import check_there
from hpcmod.core.clock import now_text
from hpcmod.core.errors import HpcmodError

Decide = Callable[[Sequence[CatalogueRecord]], Records]
"""Returns the new records of one name; raises if that is not possible. See hpcmod.catalogue.values.lifecycle."""


def change_name(
    catalogue: Catalogue, name: str, decide: Decide, *, verb: str, actor: Actor, dry_run: bool = False
) -> Change:
    """Change the containers of one name, or only preview it; if nothing differs, nothing is added to the journal.

    An error means that the change is not possible and that nothing was changed.
    """
    if dry_run:
        return _preview(catalogue, _decide(catalogue, name, decide), verb, actor)
    with changing(catalogue, actor):
        return commit(catalogue, _decide(catalogue, name, decide), verb=verb, actor=actor)


def _decide(catalogue: Catalogue, name: str, decide: Decide) -> Records:
    new = decide(catalogue.named(name))
    _check_there(catalogue, new)
    return new


def _check_there(catalogue: Catalogue, new: Records) -> None:
    """Check that containers that become loadable again have all their files."""
    for key, record in new.items():
        old = catalogue.find(*key)
        is_loadable = record and (record.state != "retired" or record.notice.until > now_text())
        if record and is_loadable and (old is None or old.state == "retired"):
            check_there(catalogue, record)


def undo(catalogue: Catalogue, number: int | None, *, actor: Actor, dry_run: bool = False) -> Change:
    """Undo a change: the one with the given ID, or the last one that was not undone yet.

    Raises NotFoundError if the change does not exist; BadInputError if a later change has modified the same containers.
    """
    if dry_run:
        change, records = _find_undo(catalogue, number)
        return _preview(catalogue, records, f"undo {change.verb}", actor, change.id)
    with changing(catalogue, actor, frees=True):
        change, records = _find_undo(catalogue, number)
        known = {key: catalogue.find(*key) for key in records}
        readers = {key: record.readers if record else "" for key, record in known.items()}
        changed = [record for key, record in records.items() if record and record.readers != readers[key]]
        for record in (record for record in changed if record.readers):  # closed before users see it
            set_readers(catalogue, record)
        undone = commit(catalogue, records, verb=f"undo {change.verb}", actor=actor, undoes=change.id)
        for record in (record for record in changed if not record.readers):
            set_readers(catalogue, record)
        return undone


def _find_undo(catalogue: Catalogue, number: int | None) -> tuple[Change, Records]:
    journal = read_journal(catalogue.directory)

    def can_undo(change: Change) -> bool:
        with suppress(HpcmodError):
            return bool(_make_undo(catalogue, change, journal))
        return False

    change = find_undoable(journal, can_undo) if number is None else find_change(catalogue.directory, number)
    return change, _make_undo(catalogue, change, journal)


def _make_undo(catalogue: Catalogue, change: Change, journal: Sequence[Change]) -> Records:
    records = make_undo(change, {edit.key: catalogue.find(*edit.key) for edit in change.edits}, journal)
    _check_there(catalogue, records)
    for name in {edit.name for edit in change.edits}:
        after = {**{key_of(record): record for record in catalogue.named(name)}, **records}
        check_leads(record for record in after.values() if record and record.name == name)
    return records


def _preview(catalogue: Catalogue, new: Records, verb: str, actor: Actor, undoes: int = 0) -> Change:
    edits = make_edits({key: catalogue.find(*key) for key in new}, new)
    return Change(last_change(catalogue.directory) + 1, "", actor.who, verb, actor.why, edits, undoes)
