"""Update published containers to the current site profile or hpcmod version: one change, without an outage.

Modules and scripts are rendered next to those in use, which work until each file is replaced atomically.
The image is not moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hpcmod.catalogue.change import Actor, changing, commit, is_unfinished
from hpcmod.catalogue.records.journal import last_change
from hpcmod.catalogue.records.sharing import check_no_links, check_replaceable, file_mode
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.text.existing_module import describe_changes
from hpcmod.catalogue.values.lifecycle import key_of
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.visible.kept import KEPT_EASYCONFIG, KEPT_FILES, KEPT_MODULE, render_kept_files, rendering_name
from hpcmod.catalogue.visible.rendering import (
    Rendering,
    changed_files,
    read_rendering,
    render_again,
    stamp,
)
from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.fs.replacing import replacing_directory
from hpcmod.core.fs.tree import write_file
from hpcmod.machine.values.site import Site
from hpcmod.modules.installed import RECORD


@dataclass(frozen=True)
class Renewal:
    """A container whose module or scripts would differ if it were published now."""

    record: CatalogueRecord
    before: Rendering
    after: Rendering

    @property
    def files(self) -> tuple[str, ...]:
        """Return what would change: `module (Lua)`, and paths below the installation."""
        return changed_files(self.before, self.after)

    @property
    def module_lines(self) -> tuple[str, ...]:
        """Return what changes in the modulefile, in words; its syntaxes say the same."""
        syntax = next(iter(self.after.modules))
        return tuple(describe_changes(self.before.modules[syntax], self.after.modules[syntax]))


@dataclass(frozen=True)
class Refreshed:
    """Result of a refresh, or of its dry run."""

    renewals: tuple[Renewal, ...]
    faults: tuple[HpcmodError, ...]
    """Why other containers are not changed, each with its name."""
    change: int = 0
    """ID of the change in the journal; 0 if nothing was changed."""


@dataclass(frozen=True)
class Wanted:
    """Settings to render containers with."""

    site: Site
    environ: Mapping[str, str]
    tool: str
    """Version of hpcmod."""


def find_renewals(
    catalogue: Catalogue, records: Iterable[CatalogueRecord], wanted: Wanted
) -> Iterator[Renewal | HpcmodError]:
    """Yield the containers that a refresh would change, and errors for those that cannot be rendered; write nothing."""
    for record in records:
        try:
            before = read_rendering(catalogue, record)
            after = render_again(catalogue, record, before, wanted.site, wanted.environ, tool=wanted.tool)
        except HpcmodError as err:
            yield err
            continue
        if changed_files(before, after):
            yield Renewal(record, before, after)


def refresh_containers(
    catalogue: Catalogue, records: Sequence[CatalogueRecord], wanted: Wanted, *, actor: Actor, dry_run: bool = False
) -> Refreshed:
    """Render the modules and scripts of containers again, all in one change of the journal.

    Raises
    ------
    BadInputError
        If a container was changed meanwhile, or was published for another machine.
    LackingError
        If the user may not change the catalogue.
    """
    _check_site(records, wanted.site)
    found = tuple(find_renewals(catalogue, records, wanted))
    renewals = tuple(one for one in found if isinstance(one, Renewal))
    faults = tuple(one for one in found if isinstance(one, HpcmodError))
    if dry_run or not (renewals or is_unfinished(catalogue)):
        return Refreshed(renewals, faults)
    with changing(catalogue, actor):
        if not renewals:
            return Refreshed(renewals, faults)
        new = str(last_change(catalogue.directory) + 1)
        for one in renewals:
            if catalogue.find(*key_of(one.record)) != one.record:
                raise BadInputError(
                    f"{one.record.module} was changed by another process", "Run the same command again."
                )
        for one in renewals:
            _keep(catalogue, one, new)
        records_now = {key_of(one.record): replace(one.record, rendering=new) for one in renewals}
        change = commit(catalogue, records_now, verb="refresh", actor=actor)
    return Refreshed(renewals, faults, change.id)


def _check_site(records: Iterable[CatalogueRecord], site: Site) -> None:
    other = sorted({one.site for one in records if one.site and one.site != site.name})
    if other:
        raise BadInputError(
            f"published with the profile {', '.join(other)}, but the profile of this machine is {site.name}",
            f"Run the command on that machine, or name its profile: --site {other[0]}",
        )


def _keep(catalogue: Catalogue, one: Renewal, rendering: str) -> None:
    record, mode = one.record, file_mode(catalogue.directory)
    place = catalogue.kept / record.name / rendering_name(record.version, rendering)
    check_no_links(catalogue, [place])
    with replacing_directory(place, partial(check_replaceable, catalogue, place)) as directory:
        texts = {KEPT_MODULE[syntax]: text for syntax, text in one.after.modules.items()}
        files = {**one.after.files, RECORD: stamp(one.after.files[RECORD], rendering)}
        texts |= {KEPT_EASYCONFIG: one.after.easyconfig, KEPT_FILES: render_kept_files(files)}
        for name, text in texts.items():
            write_file(Path(directory, name), text, mode=mode)
