"""A change of a catalogue as one line of its journal: what it did to which records, and what undoes it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hpcmod.errors import BadInputError
from hpcmod.model.catalogue.record import CatalogueRecord, parse_record, record_json
from hpcmod.model.strict_json import JsonObject, load_json

Key = tuple[str, str]
"""Name and version of a container."""

Records = Mapping[Key, "CatalogueRecord | None"]
"""What records are to be; None: not there."""

Fields = Mapping[str, Any]

_TELLING = ("sha256", "state", "aliases")
_LIMIT = 64 << 20  # bytes of a line; one that removes a record holds all of it


@dataclass(frozen=True)
class Edit:
    """What a change did to one record."""

    name: str
    version: str
    before: Fields | None
    """The fields that changed, as they were; all of a record that was removed; None: there was none."""
    after: Fields | None
    """The same fields as they are now; of a new record those that tell whether it changed; None: it was removed."""

    @property
    def key(self) -> Key:
        """Name and version."""
        return self.name, self.version


@dataclass(frozen=True)
class Change:
    """One line of the journal."""

    id: int
    """Counts from 1."""
    when: str
    """ISO 8601, UTC."""
    who: str
    verb: str
    why: str
    edits: tuple[Edit, ...]
    undoes: int = 0
    """The id of the change that this one took back; 0: it is not an undo."""
    removed: tuple[str, ...] = ()
    """Paths below the catalogue's directory that `gc` took out of it."""

    @property
    def modules(self) -> tuple[str, ...]:
        """The containers that it is about."""
        return tuple(f"{edit.name}/{edit.version}" for edit in self.edits)


def make_edits(old: Records, new: Records) -> tuple[Edit, ...]:
    """Compare records; those that stay as they are give no edit."""
    edits = (_make_edit(key, old.get(key), record) for key, record in sorted(new.items()) if record != old.get(key))
    return tuple(edits)


def _make_edit(key: Key, old: CatalogueRecord | None, new: CatalogueRecord | None) -> Edit:
    before, after = _values(old), _values(new)
    if new is None:
        return Edit(*key, before, None)
    if old is None:
        return Edit(*key, None, {field: after[field] for field in _TELLING})
    changed = [field for field in after if before[field] != after[field]]
    return Edit(*key, {field: before[field] for field in changed}, {field: after[field] for field in changed})


def make_undo(change: Change, now: Records, journal: Iterable[Change]) -> dict[Key, CatalogueRecord | None]:
    """Return the records that take a change back.

    Parameters
    ----------
    now
        The current records that the change edited.
    journal
        All changes of the catalogue.

    Raises
    ------
    BadInputError
        If the change is undone already, or a later change edited the same fields of one of the records.
    """
    _check_standing(change, journal)
    new: dict[Key, CatalogueRecord | None] = {}
    for edit in change.edits:
        current = now.get(edit.key)
        _check_unchanged(change, edit, current)
        if edit.before is None:
            new[edit.key] = None
        else:
            new[edit.key] = _parse({**_values(current), **edit.before})
    return new


def find_undone(journal: Iterable[Change]) -> dict[int, int]:
    """Map the id of each change that is undone to the id of the change that undid it.

    An undo that was itself undone counts for nothing: what it took back is in effect again.
    """
    undone: dict[int, int] = {}
    for change in sorted(journal, key=lambda one: one.id, reverse=True):
        if change.undoes and change.id not in undone:
            undone[change.undoes] = change.id
    return undone


def _check_standing(change: Change, journal: Iterable[Change]) -> None:
    """Check that a change is in effect, and that no later one builds on it.

    The values alone cannot tell: the same image published again makes an equal record.
    """
    listed = tuple(journal)
    undone = find_undone(listed)
    if change.id in undone:
        raise BadInputError(
            f"change {change.id} ({change.verb}) is already undone, by change {undone[change.id]}",
            f"To bring it back: hpcmod undo {undone[change.id]}. All changes: hpcmod catalogue journal",
        )
    # an undo cancels the change that it took back, so of each pair neither stands in the way
    later = [one for one in listed if one.id > change.id and not one.undoes and one.id not in undone]
    for one in later:
        for edit in change.edits:
            if any(_overlaps(edit, other) for other in one.edits):
                raise _changed_since(change, edit, f", by change {one.id} ({one.verb})")


def _overlaps(edit: Edit, later: Edit) -> bool:
    """Return whether a later edit is about the same record, and one of the fields that undoing would change."""
    if edit.key != later.key:
        return False
    if edit.after is None or later.after is None or later.before is None:
        return True
    return bool(set(edit.after) & set(later.after))


def _changed_since(change: Change, edit: Edit, by: str = "") -> BadInputError:
    return BadInputError(
        f"change {change.id} ({change.verb}) cannot be undone: {edit.name}/{edit.version} was changed again since{by}",
        "Undo the later changes first: hpcmod catalogue journal",
    )


def _check_unchanged(change: Change, edit: Edit, current: CatalogueRecord | None) -> None:
    values = _values(current)
    same = current is None if edit.after is None else current is not None
    if not same or any(values.get(field) != value for field, value in (edit.after or {}).items()):
        raise _changed_since(change, edit)


def _values(record: CatalogueRecord | None) -> dict[str, Any]:
    """Return the fields as JSON has them, so that what was read equals what was written."""
    values: dict[str, Any] = json.loads(record_json(record)) if record else {}
    return values


def _parse(values: Fields) -> CatalogueRecord:
    return parse_record(json.dumps(values).encode())


def render_change(change: Change) -> str:
    """Render a line of the journal, with its end."""
    return json.dumps(asdict(change), sort_keys=True) + "\n"


def parse_change(line: bytes, where: str) -> Change:
    """Read a line of the journal.

    Raises
    ------
    BadInputError
        If it is none.
    """
    found = JsonObject(load_json(line, where, limit=_LIMIT), where)
    edits = found.objects("edits", 100_000)
    return Change(
        id=found.number("id"),
        when=found.text("when"),
        who=found.text("who"),
        verb=found.text("verb"),
        why=found.text("why"),
        edits=tuple(
            Edit(one.text("name"), one.text("version"), _fields(one, "before"), _fields(one, "after")) for one in edits
        ),
        undoes=found.number("undoes", 0),
        removed=found.texts("removed"),
    )


def _fields(found: JsonObject, key: str) -> Fields | None:
    return None if found.values.get(key) is None else found.object(key).values


def find_undoable(journal: Iterable[Change], kept: Collection[int] = ()) -> Change:
    """Return the last change of a record or of files that is neither an undo nor undone.

    Parameters
    ----------
    kept
        Ids of the changes whose removed files can still be brought back.

    Raises
    ------
    BadInputError
        If there is none.
    """
    listed = sorted(journal, key=lambda one: one.id, reverse=True)
    undone = find_undone(listed)
    counting = (one for one in listed if (one.edits or one.id in kept) and not one.undoes)
    found = next((one for one in counting if one.id not in undone), None)
    if found is None:
        raise BadInputError("there is nothing to undo", "See: hpcmod catalogue journal")
    return found
