"""Update published containers to the current site profile or hpcmod version: one change, without an outage.

Modules and scripts are rendered next to those in use, which work until each file is replaced atomically.
The image is not moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hpcmod.catalogue.change import Actor, changing, commit, is_unfinished
from hpcmod.catalogue.records.journal import last_change
from hpcmod.catalogue.records.sharing import check_no_links, check_replaceable, file_mode
from hpcmod.catalogue.records.store import Catalogue, is_refused, software_of
from hpcmod.catalogue.text.changes import describe_changes, describe_settings
from hpcmod.catalogue.values.lifecycle import key_of
from hpcmod.catalogue.values.record import CatalogueRecord, refusal
from hpcmod.catalogue.visible.kept import KEPT_EASYCONFIG, KEPT_FILES, KEPT_MODULE, render_kept_files, rendering_name
from hpcmod.catalogue.visible.rendering import Rendering, changed_files, read_rendering, render_again, stamp
from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, NotFoundError
from hpcmod.core.fs.replacing import replacing_directory
from hpcmod.core.fs.tree import write_file
from hpcmod.core.text.quote import sh_word
from hpcmod.machine import find_machine
from hpcmod.machine.values.site import Site
from hpcmod.modules import read_record
from hpcmod.modules.values.install_record import RECORD

_SETTINGS = "runscripts/lib/settings.bash"
_DERIVED = (_SETTINGS, "environment.sh")
"""Scripts that have only values, most of which the modulefile has too."""


@dataclass(frozen=True)
class ChangedModule:
    """A module whose text or scripts change."""

    module: str
    files: tuple[str, ...]
    """`module (Lua)`, and paths below the installation."""
    lines: tuple[str, ...]
    """What changes in the modulefile and the scripts, in words."""


@dataclass(frozen=True)
class Fault:
    """Why a container is not changed."""

    message: str
    cure: str


@dataclass(frozen=True)
class RefreshResult:
    """Regenerated modules."""

    dry_run: bool
    change: int
    """ID of the change; 0 if nothing was changed."""
    changed: tuple[ChangedModule, ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Wanted:
    """What containers are rendered with."""

    site: Site
    environ: Mapping[str, str]
    """The modules show the notices of its catalogues."""
    adopt: bool = False
    """Whether containers that were published with another profile become containers of this one."""


def refresh_containers(
    catalogue: Catalogue, records: Sequence[CatalogueRecord], wanted: Wanted, *, actor: Actor, dry_run: bool = False
) -> RefreshResult:
    """Render the modules and scripts of containers again, all in one change of the journal.

    Raises BadInputError if a container was changed meanwhile, or was published for another machine; LackingError if the
    user may not change the catalogue.
    """
    if not wanted.adopt:
        _check_site(catalogue, records, wanted)
    renewals: list[tuple[CatalogueRecord, Rendering]] = []
    changed, faults = [], []
    for record in records:
        try:
            _check_image(catalogue, record)
            before = read_rendering(catalogue, record)
            after = render_again(catalogue, record, before, wanted.site, wanted.environ)
        except HpcmodError as err:
            faults.append(Fault(err.message, err.cure))
            continue
        files, former = changed_files(before, after), record.publication.site or wanted.site.name
        if files or former != wanted.site.name:
            renewals.append((record, after))
            moved = [f"profile: {former} -> {wanted.site.name}"] * (former != wanted.site.name)
            changed.append(ChangedModule(record.module, files, (*moved, *_describe(before, after, files))))
    result = RefreshResult(dry_run, 0, tuple(changed), tuple(faults))
    if dry_run or not (renewals or is_unfinished(catalogue)):
        return result
    with changing(catalogue, actor):
        return replace(result, change=_carry_out(catalogue, renewals, wanted.site, actor)) if renewals else result


def _describe(before: Rendering, after: Rendering, files: Iterable[str]) -> list[str]:
    """Return what changes, in words: values of modulefile and settings, and the names of other scripts."""
    syntax = next(iter(after.modules))  # both syntaxes say the same
    lines = describe_changes(before.modules[syntax], after.modules[syntax])
    told = describe_settings(before.files.get(_SETTINGS, ""), after.files.get(_SETTINGS, ""))
    lines += [f"{_SETTINGS}: {line}" for line in told]
    scripts = [file for file in files if not file.startswith("module ") and not (lines and file in _DERIVED)]
    return lines + ([f"scripts: {', '.join(scripts)}"] if scripts else [])


def _check_image(catalogue: Catalogue, record: CatalogueRecord) -> None:
    """Raise LackingError if the image is restricted to a group, NotFoundError if it was removed."""
    if is_refused(catalogue, record):
        raise LackingError(refusal(record))
    image = catalogue.images / record.sif
    if not image.exists():
        another = " under another version" if record.state == "retired" else ""
        raise NotFoundError(f"{record.module}: its image was removed: {image}", f"Publish it again{another}.")


def _check_site(catalogue: Catalogue, records: Iterable[CatalogueRecord], wanted: Wanted) -> None:
    name = wanted.site.name
    other = {record.publication.site: record for record in records if record.publication.site not in ("", name)}
    if other:
        keep = _find_profile(catalogue, other[min(other)], wanted.environ)
        raise BadInputError(
            f"published with the profile {', '.join(sorted(other))}, but the profile of this machine is {name}",
            f"To keep: --site {keep}. To change: hpcmod catalogue refresh NAME --site FILE (of {name})",
        )


def _find_profile(catalogue: Catalogue, record: CatalogueRecord, environ: Mapping[str, str]) -> str:
    """Return the profile that a container was published with as --site takes it; in words if its file is not known."""
    name = record.publication.site
    profile = read_record(software_of(catalogue, record)).profile or name
    with suppress(HpcmodError):
        if find_machine(None, environ, flag=profile).site.name == name:
            return sh_word(profile)
    return f"FILE (of {name})"


def _carry_out(
    catalogue: Catalogue, renewals: Sequence[tuple[CatalogueRecord, Rendering]], site: Site, actor: Actor
) -> int:
    """Put new renderings in place, within `changing`, and return the ID of the change."""
    for record, _ in renewals:
        if catalogue.find(*key_of(record)) != record:
            raise BadInputError(f"{record.module} was changed by another process", "Run the same command again.")
    number = str(last_change(catalogue.directory) + 1)
    new = {}
    for record, rendering in renewals:
        _keep(catalogue, record, rendering, number)
        publication = replace(record.publication, site=record.publication.site and site.name)
        new[key_of(record)] = replace(record, rendering=number, publication=publication)
    return commit(catalogue, new, verb="refresh", actor=actor).id


def _keep(catalogue: Catalogue, record: CatalogueRecord, rendering: Rendering, number: str) -> None:
    mode = file_mode(catalogue.directory)
    place = catalogue.kept / record.name / rendering_name(record.version, number)
    check_no_links(catalogue, [place])
    with replacing_directory(place, partial(check_replaceable, catalogue, place)) as directory:
        texts = {KEPT_MODULE[syntax]: text for syntax, text in rendering.modules.items()}
        files = {**rendering.files, RECORD: stamp(rendering.files[RECORD], number)}
        texts |= {KEPT_EASYCONFIG: rendering.easyconfig, KEPT_FILES: render_kept_files(files)}
        for name, text in texts.items():
            write_file(Path(directory, name), text, mode=mode)
