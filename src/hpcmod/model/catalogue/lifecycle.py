"""What becomes of published containers, decided from records: aliases move, one is deprecated, retired, restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from hpcmod.errors import BadInputError
from hpcmod.model.catalogue.advisory import seconds_of
from hpcmod.model.catalogue.journal import Key, Records
from hpcmod.model.catalogue.record import CatalogueRecord, is_file_name

STABLE = "stable"
_LEADING = (STABLE, "latest")
"""The aliases that `module load NAME` follows, the first that there is."""

_RESERVED = ("default", "modulerc", "version")
"""Names that the module tools give a meaning of their own."""


def key_of(record: CatalogueRecord) -> Key:
    """Name and version of a record."""
    return record.name, record.version


def choose_default(records: Iterable[CatalogueRecord], *, order: Callable[[str], Any]) -> CatalogueRecord | None:
    """Return the version of one name that `module load NAME` means: the stable one, else the latest, else the highest.

    A deprecated one only where there is no other; a retired one never: None where all are.

    Parameters
    ----------
    order
        Makes of a version what it is compared by.
    """
    return max(
        (record for record in records if record.state != "retired"),
        key=lambda one: (one.state == "published", *(alias in one.aliases for alias in _LEADING), order(one.version)),
        default=None,
    )


def check_alias(alias: str, records: Sequence[CatalogueRecord]) -> str:
    """Check that a word can be an alias beside the versions of a name, and give it back.

    Raises
    ------
    BadInputError
        If it cannot.
    """
    if not is_file_name(alias) or alias in _RESERVED:
        raise BadInputError(f"{alias!r} cannot be an alias", "Take letters, digits, `-` and `_`: stable, latest, 2.7.")
    if any(record.version == alias for record in records):
        raise BadInputError(f"{alias!r} is a version of {records[0].name} itself", "Take another word.")
    return alias


def move_alias(records: Sequence[CatalogueRecord], key: Key, alias: str) -> Records:
    """Let an alias lead to a version, and no longer to another.

    Parameters
    ----------
    records
        All of the name.

    Raises
    ------
    BadInputError
        If it cannot be an alias, or the version is retired.
    """
    check_alias(alias, records)
    target = find(records, key)
    if target.state == "retired":
        raise BadInputError(f"{target.module} is retired: no alias can lead to it", f"hpcmod restore {target.module}")
    others = {key_of(one): drop_alias(one, alias) for one in records if alias in one.aliases and key_of(one) != key}
    return {**others, key: replace(target, aliases=tuple(sorted({*target.aliases, alias})))}


def drop_alias(record: CatalogueRecord, alias: str) -> CatalogueRecord:
    """Take an alias from a record."""
    return replace(record, aliases=tuple(one for one in record.aliases if one != alias))


def remove_alias(records: Sequence[CatalogueRecord], key: Key, alias: str) -> Records:
    """Let an alias lead nowhere.

    Raises
    ------
    BadInputError
        If it does not lead to the version.
    """
    record = find(records, key)
    if alias not in record.aliases:
        raise BadInputError(
            f"{alias!r} does not lead to {record.module}", f"It has: {', '.join(record.aliases) or '-'}"
        )
    return {key: drop_alias(record, alias)}


def deprecate(
    records: Sequence[CatalogueRecord],
    key: Key,
    *,
    until: str | None = None,
    successor: str | None = None,
    reason: str | None = None,
) -> Records:
    """Let a container say at each load that it will go, when, and what to use instead.

    Parameters
    ----------
    until, successor, reason
        None: as it was said before, if it was; empty: no longer said.

    Raises
    ------
    BadInputError
        If it is retired, the day is none, or the successor cannot be loaded.
    """
    record = find(records, key)
    if record.state == "retired":
        raise BadInputError(f"{record.module} is retired already", f"hpcmod restore {record.module}")
    _check_successor(records, record, successor or "")
    _check_day(until or "")
    new = replace(
        record,
        state="deprecated",
        until=record.until if until is None else until,
        successor=record.successor if successor is None else successor,
        reason=record.reason if reason is None else reason,
    )
    return {key: new}


def retire(
    records: Sequence[CatalogueRecord],
    key: Key,
    *,
    until: str | None = None,
    successor: str | None = None,
    reason: str | None = None,
) -> Records:
    """Block loading of a container, at once or from a day on. What its deprecation said is kept unless replaced.

    Its aliases go to the successor, where that is a version of the same name.

    Parameters
    ----------
    until
        None, or empty: it loads no more from now on, whatever day was said before.
    successor, reason
        None: as it was said before, if it was; empty: no longer said.

    Raises
    ------
    BadInputError
        If the day is none, the successor cannot be loaded, or aliases would lead nowhere.
    """
    record = find(records, key)
    successor = record.successor if successor is None else successor
    reason = record.reason if reason is None else reason
    heir = _check_successor(records, record, successor)
    _check_day(until or "")
    if record.aliases and heir is None:
        raise BadInputError(
            f"{record.module} has the aliases {', '.join(record.aliases)}: nobody could load them any more",
            "Name a --successor of the same name, or move them first: hpcmod alias CONTAINER ALIAS",
        )
    gone = replace(record, state="retired", aliases=(), until=until or "", successor=successor, reason=reason)
    if heir is None or not record.aliases:
        return {key: gone}
    return {key: gone, key_of(heir): replace(heir, aliases=tuple(sorted({*heir.aliases, *record.aliases})))}


def restore(records: Sequence[CatalogueRecord], key: Key) -> Records:
    """Return a deprecated or retired container to normal; its aliases stay where they went."""
    record = find(records, key)
    return {key: replace(record, state="published", until="", successor="", reason="")}


def check_leads(records: Iterable[CatalogueRecord]) -> None:
    """Check that each alias of a name leads to one version, which can be loaded: undoing might bring back others.

    Raises
    ------
    BadInputError
        If one does not.
    """
    holders: dict[str, CatalogueRecord] = {}
    for record, alias in ((one, alias) for one in records for alias in one.aliases):
        if record.state == "retired":
            raise BadInputError(f"{alias!r} would lead to {record.module}, which is retired", _LATER)
        if holders.setdefault(alias, record) is not record:
            raise BadInputError(f"{alias!r} would lead to {record.module} and {holders[alias].module}", _LATER)


_LATER = "Undo the later changes first: hpcmod catalogue journal"


def find(records: Iterable[CatalogueRecord], key: Key) -> CatalogueRecord:
    """Return the record of a key, which must be among them."""
    return next(record for record in records if key_of(record) == key)


def _check_successor(
    records: Sequence[CatalogueRecord], record: CatalogueRecord, successor: str
) -> CatalogueRecord | None:
    """Return the successor if it is a version of the same name in this catalogue, else None: it is text for users."""
    name, _, version = successor.partition("/")
    if name != record.name or not version:
        return None
    known = {word: one for one in records if one is not record for word in (one.version, *one.aliases)}
    if version not in known:
        raise BadInputError(
            f"the successor {successor} is not another container of the catalogue",
            f"It has: {', '.join(sorted(known)) or 'no other'}",
        )
    if known[version].state == "retired":
        raise BadInputError(f"the successor {successor} is retired itself", "Name another one.")
    return known[version]


def _check_day(day: str) -> None:
    try:
        seconds_of(day or "2000-01-01")
    except ValueError as err:
        raise BadInputError(f"--until {err}", "Write it as 2027-03-01.") from err
