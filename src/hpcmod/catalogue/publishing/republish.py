"""What is already published under a name: whether it is the same image, and where its aliases point."""

from __future__ import annotations

from collections.abc import Sequence

from hpcmod.catalogue.publishing.candidate import Candidate, sif_on_disk
from hpcmod.catalogue.values.journal import Records
from hpcmod.catalogue.values.lifecycle import check_alias, key_of, move_alias
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.core.errors import BadInputError
from hpcmod.images import Progress, file_sha256


def check_aliases(records: Sequence[CatalogueRecord], candidate: Candidate, aliases: Sequence[str]) -> None:
    """Raise BadInputError for an alias that is a version, or a version that is an alias.

    Parameters
    ----------
    records
        All records of the name.
    """
    for alias in aliases:
        check_alias(alias, records)
        if alias == candidate.version:
            raise BadInputError(f"{alias!r} is the version itself", "Choose another alias.")
    holder = next((one for one in records if candidate.version in one.aliases), None)
    if holder:
        raise BadInputError(f"{candidate.version!r} is an alias of {holder.module}", "Choose another version.")


def check_same(candidate: Candidate, known: CatalogueRecord, progress: Progress | None) -> None:
    """Raise an error for another image under a published name: what users load by that name must not change.

    Raises
    ------
    BadInputError
        If it is another image, if that is unknown without fetching it, or if the name is retired.
    """
    if known.state == "retired":
        raise BadInputError(
            f"{known.module} is retired",
            f"Restore it: hpcmod catalogue restore {known.module}; or choose another version.",
        )
    path = sif_on_disk(candidate.reference)
    found = candidate.checksum or (file_sha256(path, progress) if path else "")
    same_place = candidate.reference.canonical in (known.reference, known.reference.partition("@")[0])
    if candidate.sif == known.sif and (found == known.sha256 or (not found and same_place)):
        return
    raise BadInputError(
        f"{known.module} is published with another image, {known.sif} of sha256 {known.sha256}: what users load must "
        "not change",
        "Choose another version: --version; or undo the former publication first: hpcmod catalogue undo",
    )


def with_aliases(records: Sequence[CatalogueRecord], target: CatalogueRecord, aliases: Sequence[str]) -> Records:
    """Return the new records with aliases pointed at one of them: that one, and the others that change."""
    now = {key_of(one): one for one in records}
    for alias in aliases:
        moved = move_alias(tuple(now.values()), key_of(target), alias)
        now.update({key: record for key, record in moved.items() if record})
    before = {key_of(one): one for one in records}
    return {key: one for key, one in now.items() if one != before[key] or key == key_of(target)}
