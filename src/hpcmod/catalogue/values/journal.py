"""Catalogue changes as lines of a journal: the records each one changed, and how to undo it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hpcmod.catalogue.values.record import CatalogueRecord, parse_record, record_json
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.json_form import parse_json

Key = tuple[str, str]
"""Name and version of a container."""

Records = Mapping[Key, "CatalogueRecord | None"]
"""Target state of records; None: no record."""

Fields = Mapping[str, Any]

_TELLING = ("sha256", "state", "aliases")
_LIMIT = 64 << 20  # bytes per line; a line that removes a record contains the complete record


@dataclass(frozen=True)
class Edit:
    """The effect of a change on one record."""

    name: str
    version: str
    before: Fields | None = None
    """Previous values of the changed fields; the complete record if it was removed; None if there was no record."""
    after: Fields | None = None
    """New values of the same fields; for a new record, all of them; None if it was removed."""

    @property
    def key(self) -> Key:
        """Return name and version."""
        return self.name, self.version

    @property
    def telling(self) -> Fields:
        """Return the new values that detect later changes."""
        after = self.after or {}
        return after if self.before is not None else {field: after[field] for field in _TELLING if field in after}


@dataclass(frozen=True)
class Change:
    """One line of the journal."""

    id: int
    """Numbered from 1."""
    when: str
    """ISO 8601, UTC."""
    who: str
    verb: str
    why: str
    edits: tuple[Edit, ...]
    undoes: int = 0
    """The id of the change that this one undoes; 0 if it is not an undo."""

    @property
    def modules(self) -> tuple[str, ...]:
        """Return the affected containers."""
        return tuple(f"{edit.name}/{edit.version}" for edit in self.edits)


def make_edits(old: Records, new: Records) -> tuple[Edit, ...]:
    """Compare records and return an edit for each one that differs."""
    edits = (_make_edit(key, old.get(key), record) for key, record in sorted(new.items()) if record != old.get(key))
    return tuple(edits)


def _make_edit(key: Key, old: CatalogueRecord | None, new: CatalogueRecord | None) -> Edit:
    before, after = _values(old), _values(new)
    if new is None:
        return Edit(*key, before, None)
    if old is None:
        return Edit(*key, None, after)
    changed = [field for field in after if before[field] != after[field]]
    return Edit(*key, {field: before[field] for field in changed}, {field: after[field] for field in changed})


def make_undo(change: Change, now: Records, journal: Iterable[Change]) -> dict[Key, CatalogueRecord | None]:
    """Return the records that undo a change.

    `now`: The current records that the change edited.
    `journal`: All changes of the catalogue.

    Raises BadInputError if the change edited no record or is already undone, or a later change edited the same fields
    of a record.
    """
    if not change.edits:
        why, cure = _lasting(change.verb)
        raise BadInputError(f"change {change.id} ({change.verb}) cannot be undone: {why}", cure)
    _check_standing(change, journal)
    new: dict[Key, CatalogueRecord | None] = {}
    for edit in change.edits:
        current = now.get(edit.key)
        _check_unchanged(change, edit, current)
        if edit.before is None:
            new[edit.key] = None
        else:
            _check_files(change, edit, journal)
            new[edit.key] = parse_record(json.dumps({**_values(current), **edit.before}).encode())
    return new


def _check_files(change: Change, edit: Edit, journal: Iterable[Change]) -> None:
    """Check that no publication has replaced the files of a container that an undo would bring back."""
    for newer in journal if edit.after is None else ():
        replaced = any(other.key == edit.key and other.before is None for other in newer.edits)
        if newer.id > change.id and replaced and not newer.undoes:
            raise BadInputError(
                f"change {change.id} ({change.verb}) cannot be undone: change {newer.id} has published "
                f"{edit.name}/{edit.version} again, with other files",
                "Publish its image again, with the options of then.",
            )


def _lasting(verb: str) -> tuple[str, str]:
    """Return why a change that edited no record cannot be undone, and what to do instead."""
    return {
        "gc": (
            "it removed files",
            "To publish a removed container under another version: hpcmod publish REFERENCE",
        ),
        "advisory refresh": (
            "it follows the files in `advisories`",
            "Change or restore the file there, then: hpcmod catalogue advisory refresh",
        ),
    }.get(verb, ("it changed no container", "See: hpcmod catalogue journal"))


def find_undone(journal: Iterable[Change]) -> dict[int, int]:
    """Map the id of each undone change to the id of the change that undid it.

    An undo that was itself undone is ignored: the change it undid is in effect again.
    """
    undone: dict[int, int] = {}
    for change in sorted(journal, key=lambda entry: entry.id, reverse=True):
        if change.undoes and change.id not in undone:
            undone[change.undoes] = change.id
    return undone


def _check_standing(change: Change, journal: Iterable[Change]) -> None:
    """Check that a change is in effect and that no later change builds on it.

    Comparing values is not enough: publishing the same image again makes an equal record.
    """
    listed = tuple(journal)
    undone = find_undone(listed)
    if change.id in undone:
        raise BadInputError(
            f"change {change.id} ({change.verb}) is already undone, by change {undone[change.id]}",
            f"To restore it: hpcmod catalogue undo {undone[change.id]}. All changes: hpcmod catalogue journal",
        )
    # an undo cancels the change it undid, so neither of the pair blocks this undo
    later = [newer for newer in listed if newer.id > change.id and not newer.undoes and newer.id not in undone]
    for newer in later:
        for edit in change.edits:
            if any(_overlaps(edit, other) for other in newer.edits):
                raise _changed_since(change, edit, f", by change {newer.id} ({newer.verb})")


def _overlaps(edit: Edit, later: Edit) -> bool:
    """Return whether a later edit affects the same record and a field that this undo would change."""
    if edit.key != later.key:
        return False
    if edit.after is None or later.after is None or later.before is None:
        return True
    return bool(set(edit.telling) & set(later.after))


def _changed_since(change: Change, edit: Edit, by: str = "") -> BadInputError:
    return BadInputError(
        f"change {change.id} ({change.verb}) cannot be undone: {edit.name}/{edit.version} was changed again since{by}",
        "Undo the later changes first: hpcmod catalogue journal",
    )


def _check_unchanged(change: Change, edit: Edit, current: CatalogueRecord | None) -> None:
    values = _values(current)
    same = current is None if edit.after is None else current is not None
    if not same or any(values.get(field) != value for field, value in edit.telling.items()):
        raise _changed_since(change, edit)


def replay(journal: Iterable[Change]) -> dict[Key, CatalogueRecord]:
    """Return the records that changes lead to, without those that an hpcmod before 1.0.0 published."""
    found: dict[Key, Fields] = {}
    for edit in (edit for change in journal for edit in change.edits):
        found[edit.key] = {**(found.get(edit.key, {}) if edit.before is not None else {}), **(edit.after or {})}
        if edit.after is None:
            del found[edit.key]
    complete = {key: values for key, values in found.items() if "name" in values}
    return {key: parse_record(json.dumps(values).encode(), "journal") for key, values in complete.items()}


def _values(record: CatalogueRecord | None) -> dict[str, Any]:
    """Return the fields as JSON represents them, so that values read and values written compare equal."""
    values: dict[str, Any] = json.loads(record_json(record)) if record else {}
    return values


def render_change(change: Change) -> str:
    """Render a line of the journal, including its line end."""
    return json.dumps(asdict(change), sort_keys=True) + "\n"


def parse_change(line: bytes, where: str) -> Change:
    """Parse a line of the journal; raise BadInputError if it is not valid."""
    return parse_json(Change, line, where, limit=_LIMIT)


def find_undoable(journal: Iterable[Change], can_undo: Callable[[Change], bool] = lambda _: True) -> Change:
    """Return the last change that is neither an undo nor undone.

    `can_undo`: Whether an earlier change can be undone, for the cure.

    Raises BadInputError if there is none, or it edited no record: to undo an older one, an admin has to name it.
    """
    listed = sorted(journal, key=lambda change: change.id, reverse=True)
    undone = find_undone(listed)
    standing = [change for change in listed if not change.undoes and change.id not in undone]
    if not standing:
        raise BadInputError("nothing to undo", "See: hpcmod catalogue journal")
    last = standing[0]
    if not last.edits:
        why, cure = _lasting(last.verb)
        before = next((change for change in standing if change.edits and can_undo(change)), None)
        if before:
            cure += f". To undo {before.verb} {', '.join(before.modules)}: hpcmod catalogue undo {before.id}"
        raise BadInputError(f"the last change, {last.id} ({last.verb}), cannot be undone: {why}", cure)
    return last
