"""Lifecycle of published containers: moving aliases, deprecating, retiring and restoring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hpcmod.catalogue.values.advisory import seconds_of
from hpcmod.catalogue.values.journal import Key, Records
from hpcmod.catalogue.values.order import release_key
from hpcmod.catalogue.values.record import CatalogueRecord, StateNotice
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.text import is_file_name

STABLE = "stable"
_LEADING = (STABLE, "latest")
"""The aliases that `module load NAME` follows, in order of preference."""

_RESERVED = ("default", "modulerc", "version")
"""Names that the module tools reserve."""


def key_of(record: CatalogueRecord) -> Key:
    """Return name and version of a record."""
    return record.name, record.version


def choose_default(records: Iterable[CatalogueRecord]) -> CatalogueRecord | None:
    """Return the version that `module load NAME` loads: the stable one, else the latest, else the highest.

    A deprecated version is chosen only if there is no other, a retired one never. None if all are retired.
    """
    return max(
        (record for record in records if record.state != "retired"),
        key=lambda candidate: (
            candidate.state == "published",
            *(alias in candidate.aliases for alias in _LEADING),
            release_key(candidate.version),
        ),
        default=None,
    )


def check_alias(alias: str, records: Sequence[CatalogueRecord]) -> str:
    """Return the alias; raise BadInputError if it is not valid, or a version of the name."""
    if not is_file_name(alias) or alias in _RESERVED:
        raise BadInputError(f"{alias!r} cannot be an alias", "Use letters, digits, `-` and `_`: stable, latest, 2.7.")
    if any(record.version == alias for record in records):
        raise BadInputError(f"{alias!r} is already a version of {records[0].name}", "Choose another alias.")
    return alias


def move_alias(records: Sequence[CatalogueRecord], key: Key, alias: str) -> Records:
    """Point an alias at a version, and remove it from any other.

    `records`: All records of the name.

    Raises BadInputError if the alias is not valid, or the version is retired.
    """
    check_alias(alias, records)
    target = find(records, key)
    if target.state == "retired":
        raise BadInputError(
            f"{target.module} is retired: an alias cannot point to it", f"hpcmod catalogue restore {target.module}"
        )
    others = {
        key_of(record): drop_alias(record, alias)
        for record in records
        if alias in record.aliases and key_of(record) != key
    }
    return {**others, key: replace(target, aliases=tuple(sorted({*target.aliases, alias})))}


def with_aliases(records: Sequence[CatalogueRecord], target: CatalogueRecord, aliases: Sequence[str]) -> Records:
    """Return the new records with aliases pointed at one of them: that one, and the others that change."""
    now = {key_of(record): record for record in records}
    for alias in aliases:
        moved = move_alias(tuple(now.values()), key_of(target), alias)
        now.update({key: record for key, record in moved.items() if record})
    before = {key_of(record): record for record in records}
    return {key: record for key, record in now.items() if record != before[key] or key == key_of(target)}


def drop_alias(record: CatalogueRecord, alias: str) -> CatalogueRecord:
    """Return the record without an alias."""
    return replace(record, aliases=tuple(other for other in record.aliases if other != alias))


def remove_alias(records: Sequence[CatalogueRecord], key: Key, alias: str) -> Records:
    """Remove an alias; raise BadInputError if it does not point to the version."""
    record = find(records, key)
    if alias not in record.aliases:
        raise BadInputError(
            f"{alias!r} does not point to {record.module}", f"Its aliases: {', '.join(record.aliases) or '-'}"
        )
    return {key: drop_alias(record, alias)}


def deprecate(records: Sequence[CatalogueRecord], key: Key, **said: str | None) -> Records:
    """Mark a container as deprecated: each load prints when it will be retired, and what to use instead.

    `said`: `until`, `successor` and `reason`: None keeps the current value; an empty string clears it.

    Raises BadInputError if it is retired, the date is invalid, or the successor cannot be loaded.
    """
    record = find(records, key)
    if record.state == "retired":
        raise BadInputError(f"{record.module} is already retired", f"hpcmod catalogue restore {record.module}")
    _check_successor(records, record, said.get("successor") or "")
    _check_day(said.get("until") or "")
    return {key: replace(record, state="deprecated", notice=_updated(record.notice, said))}


def retire(records: Sequence[CatalogueRecord], key: Key, **said: str | None) -> Records:
    """Block loading of a container, now or from a given day. Deprecation notes are kept unless replaced.

    Its aliases move to the successor if that is a version of the same name.

    `said`: `successor` and `reason`: None keeps the current value; an empty string clears it. `until`: None or empty:
        the container stops loading now, whatever date was set before.

    Raises BadInputError if the date is invalid, the successor cannot be loaded, or an alias would point to nothing.
    """
    record = find(records, key)
    notice = _updated(record.notice, {**said, "until": said.get("until") or ""})
    heir = _check_successor(records, record, notice.successor)
    _check_day(notice.until)
    if record.aliases and heir is None:
        promote = [f"hpcmod catalogue promote {record.module} --alias {alias} --remove" for alias in record.aliases]
        others = any(other.state != "retired" for other in records if other is not record)
        lead = "Name a --successor of the same name, or remove" if others else "Remove"
        raise BadInputError(
            f"{record.module} has the aliases {', '.join(record.aliases)}, which could no longer be loaded",
            f"{lead} them first: {' && '.join(promote)}",
        )
    gone = replace(record, state="retired", aliases=(), notice=notice)
    if heir is None or not record.aliases:
        return {key: gone}
    return {key: gone, key_of(heir): replace(heir, aliases=tuple(sorted({*heir.aliases, *record.aliases})))}


def _updated(notice: StateNotice, said: Mapping[str, str | None]) -> StateNotice:
    return replace(notice, **{name: text for name, text in said.items() if text is not None})


def restore(records: Sequence[CatalogueRecord], key: Key) -> Records:
    """Return a deprecated or retired container to normal; moved aliases stay where they are."""
    return {key: replace(find(records, key), state="published", notice=StateNotice())}


def check_leads(records: Iterable[CatalogueRecord]) -> None:
    """Raise BadInputError if an alias of a name does not point to exactly one loadable version, as after some undos."""
    holders: dict[str, CatalogueRecord] = {}
    for record, alias in ((candidate, alias) for candidate in records for alias in candidate.aliases):
        if record.state == "retired":
            raise BadInputError(f"{alias!r} would point to {record.module}, which is retired", _LATER)
        if holders.setdefault(alias, record) is not record:
            raise BadInputError(f"{alias!r} would point to both {record.module} and {holders[alias].module}", _LATER)


_LATER = "Undo the later changes first: hpcmod catalogue journal"


def find(records: Iterable[CatalogueRecord], key: Key) -> CatalogueRecord:
    """Return the record for a key, which must exist."""
    return next(record for record in records if key_of(record) == key)


def _check_successor(
    records: Sequence[CatalogueRecord], record: CatalogueRecord, successor: str
) -> CatalogueRecord | None:
    """Return the successor if it is a version of the same name in this catalogue, else None: it is then only text."""
    name, _, version = successor.partition("/")
    if name != record.name or not version:
        return None
    known = {word: other for other in records if other is not record for word in (other.version, *other.aliases)}
    if version not in known:
        raise BadInputError(
            f"the successor {successor} is not another container in the catalogue",
            f"Other containers: {', '.join(sorted(known)) or 'none'}",
        )
    if known[version].state == "retired":
        raise BadInputError(f"the successor {successor} is retired too", "Choose another successor.")
    return known[version]


def _check_day(day: str) -> None:
    try:
        seconds_of(day or "2000-01-01")
    except ValueError as err:
        raise BadInputError(f"--until {day}: not a valid date", "Write it as 2027-03-01.") from err
