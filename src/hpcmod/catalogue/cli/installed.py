"""The commands for a user's own installations: remove, outdated, update."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.catalogue.cli.containers import (
    Here,
    check_not_loaded,
    complete_container,
    container_argument,
    find_own,
    loaded_modules,
    look_around,
)
from hpcmod.catalogue.cli.easyconfigs import eb_environ, find_own_recipe
from hpcmod.catalogue.finding.outdated import Outdated, find_outdated
from hpcmod.catalogue.records.store import is_catalogue
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import json_option, print_data, print_json, print_text, tell
from hpcmod.core.errors import BadInputError, BusyError, HpcmodError, NotFoundError
from hpcmod.core.registry import offered
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.text import format_size
from hpcmod.images import Sif
from hpcmod.modules import (
    Installed,
    find_unfinished_removal,
    install_with_eb,
    make_removal,
    remove_installation,
    sharing,
    site_of,
)
from hpcmod.modules.values.install_record import is_user_packages

_UPDATE = "HPCMOD_UPDATE"
"""Environment variable that tells the easyblock not to read an unmodified image again."""


@dataclass(frozen=True)
class Removed:
    """The removed files of an installation."""

    dry_run: bool
    module: str
    removed: tuple[Path, ...]
    """Files and directories."""
    packages: tuple[Path, ...]
    """Of these, your own packages."""
    kept: tuple[Path, ...] = ()
    """Your own packages, and what hpcmod did not install."""
    kernels: tuple[str, ...] = ()
    """Jupyter kernels that no longer work."""


@dataclass(frozen=True)
class OutdatedList:
    """Installations that should be updated."""

    outdated: tuple[Outdated, ...]


@dataclass(frozen=True)
class Update:
    """What became of the update of one installation."""

    module: str
    root: Path
    status: int
    """Exit status of `eb`."""
    error: str
    """Why it could not be started; empty if it was."""


@dataclass(frozen=True)
class UpdateList:
    """The updated installations."""

    status: int
    """The highest exit status."""
    dry_run: bool
    containers: tuple[Update, ...]


def find_writable(here: Here, container: str, *, only: bool = False) -> Installed:
    """Return the user's installation that matches: of several versions the highest; if `only`, several are an error."""
    found = find_own(here, container, writable=True)
    if found is None:
        other = find_own(here, container)
        if other:
            _check_unpublished(other)
        raise NotFoundError(
            f"you have no installation of {container}", "Your installations are marked `yours` in: hpcmod ls"
        )
    versions = [copy.module for copy in here.own() if copy.name == found.name]
    if only and container != found.module and len(versions) > 1:
        raise NotFoundError(f"{container} is ambiguous", "Choose one of: " + ", ".join(versions))
    return found


@click.command("remove")
@container_argument
@click.option("--with-packages", is_flag=True, help="Also remove the packages that you added.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed; remove nothing.")
@click.option("-y", "--yes", is_flag=True, help="Remove without a question.")
@json_option(Removed)
def remove_verb(container: str, with_packages: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove one of your installations; your own packages are kept.

    If you have several versions, give NAME/VERSION. On a terminal you are asked first; scripts are not.

    \b
    Examples:
      hpcmod remove PyTorch/2.6.0-rocm-6.2.4-singularity
      hpcmod remove --dry-run PyTorch/2.6.0-rocm-6.2.4-singularity
    """
    here = look_around(None)
    found = find_unfinished_removal(here.own_trees(), container) or find_writable(here, container, only=True)
    _check_unused(here, found)
    removal = make_removal(found, with_packages=with_packages)
    packages = removal.packages  # before they are removed
    dependents = [each for find in offered("dependents") for each in find(found.root, os.environ)]
    if not (dry_run or yes or as_json) and on_a_terminal():
        too = f" with your own packages in {', '.join(map(str, packages))}" if packages else ""
        click.confirm(f"Remove {found.module} from {found.root}{too}?", abort=True)
    if not dry_run:
        remove_installation(found, removal, tell=tell)
    paths = [*removal.modulefiles, *removal.removed]
    if as_json:
        print_json(
            Removed(
                dry_run, found.module, tuple(paths), packages, removal.kept, tuple(each.name for each in dependents)
            )
        )
        return
    for path in paths:
        print_text(str(path))
    done = "would remove" if dry_run else "removed"
    tell(f"{done} {found.module}: {len(paths)} files and directories")
    fetched = Path(found.image.source)
    beside = fetched.parent / f"{fetched.stem}.eb"
    if fetched.is_file() and beside.is_file() and fetched.stat().st_uid == os.geteuid():
        command = f"rm {sh_word(str(fetched))}* {sh_word(str(beside))}"
        size = format_size(fetched.stat().st_size)
        tell(f"kept, to install it again: {fetched} and its easyconfig; to free these {size}, too: {command}")
    for path in packages:
        tell(f"{done} your own packages: {path}")
    for each in dependents:
        stops = "would stop" if dry_run else "stops"
        tell(f"the {each.kind} {each.name} {stops} working; to remove it: {each.removal}")
    for path in removal.kept:
        if is_user_packages(path.name):
            tell(f"kept your own packages; to remove them: rm -r {sh_word(str(path))}")
        else:
            tell(f"kept, because it was not installed by hpcmod: {path}")


def on_a_terminal() -> bool:
    """Return whether stdin and stdout are a terminal, so that a user can answer a question."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _check_unused(here: Here, own: Installed) -> None:
    """Raise an error if an installation is published, loaded in this shell, or needed by another one."""
    _check_unpublished(own)
    if own.module in loaded_modules():
        raise BusyError(f"{own.module} is loaded in this shell", f"module unload {sh_word(own.module)}")
    for other in here.own():
        if other.root != own.root and own.root in Path(other.image.path).parents:
            raise BusyError(f"{other.module} uses the image of {own.module}", f"hpcmod remove {sh_word(other.module)}")


def _check_unpublished(own: Installed) -> None:
    path = find_publisher(own)
    if path:
        ways = (f"{verb} it: hpcmod catalogue {verb} {sh_word(own.module)}" for verb in ("refresh", "retire"))
        cure = f"An admin of the catalogue can {'; or '.join(ways)}"
        raise BadInputError(f"{own.module} is published in the catalogue {path}", cure)


def find_publisher(copy: Installed) -> Path | None:
    """Return the directory of the catalogue in which a copy is published; None if it is in none."""
    places = (*copy.root.resolve().parents, *copy.modulefile.resolve().parents)
    return next(filter(is_catalogue, places), None)


@click.command("outdated")
@site_option
@json_option(OutdatedList)
def outdated_verb(site: str | None, as_json: bool) -> None:
    """List your installations that are deprecated or out of date.

    \b
    Examples:
      hpcmod outdated
      hpcmod outdated --json | jq -r '.outdated[].cure'
    """
    here = look_around(site)
    found = list(find_outdated(here.own(), here.indexes()))
    if as_json:
        print_json(OutdatedList(tuple(found)))
        return
    for outdated in found:
        print_text(f"{outdated.module}: {outdated.found}: {outdated.cure}")
    if not found:
        tell("nothing is outdated")


@click.command("update")
@click.argument("containers", metavar="[NAME[/VERSION]]...", nargs=-1, shell_complete=complete_container)
@click.option("--all", "everything", is_flag=True, help="Update all of your installations.")
@click.option("--dry-run", is_flag=True, help="Print the command lines; run nothing.")
@site_option
@json_option(UpdateList)
def update_verb(containers: tuple[str, ...], everything: bool, dry_run: bool, site: str | None, as_json: bool) -> None:
    """Update your installations; unchanged images are kept.

    \b
    Examples:
      hpcmod update PyTorch/2.7.1-rocm-6.2.4-singularity
      hpcmod update --all
    """
    if bool(containers) == everything:
        raise click.UsageError("give installations or --all")
    here = look_around(site)
    chosen = here.own() if everything else [find_writable(here, container) for container in containers]
    done = []
    for own in chosen:
        try:
            status, fault = _update(here, own, site, dry_run=dry_run, as_json=as_json), ""
        except HpcmodError as err:
            if len(chosen) == 1:
                raise
            tell(str(err))  # continue with the others
            status, fault = err.exit_code, err.message
        done.append(Update(own.module, own.root, status, fault))
        if not (status or dry_run):
            tell(f"updated {own.module} in {own.root}")
    worst = max((update.status for update in done), default=0)
    if as_json:
        print_json(UpdateList(worst, dry_run, tuple(done)))
    sys.exit(worst)


def _update(here: Here, own: Installed, site: str | None, *, dry_run: bool, as_json: bool) -> int:
    argv = reinstall_command(here, own)
    if dry_run:
        command = " ".join(map(sh_word, argv))
        tell(command) if as_json else print_data(command)
        return 0
    return reinstall(here, own, site)


def reinstall(here: Here, own: Installed, site: str | None, *, keep_image: bool = True) -> int:
    """Install again into the same directories, and return the exit status of `eb`.

    `keep_image`: Whether to use the installed image if its size and modification time are those of the record; if
        False, the image is taken from its source.
    """
    recipe = find_own_recipe(here, own)
    check_not_loaded(own.module)
    profile = site_of(own.record, here.site, os.environ, asked=site, tell=tell).profile
    if keep_image:
        _restore_provenance(own)
        environ = {**eb_environ(profile, [recipe.images, own.root]), _UPDATE: "1"}
    else:
        environ = eb_environ(profile, [recipe.images] if recipe.images != own.root else [])
    places = _directories(own)
    with sharing(places and (places[0], places[1].parent), os.environ) as shared:
        return install_with_eb(reinstall_command(here, own)[1:], environ, shared, tell=tell)


def reinstall_command(here: Here, own: Installed) -> list[str]:
    """Return the command line of `eb` that installs again into the same directories, whatever EasyBuild's settings."""
    places = _directories(own)
    argv = ["eb", str(find_own_recipe(here, own).easyconfig), "--rebuild"]
    argv += [f"--module-syntax={'Lua' if own.modulefile.suffix == '.lua' else 'Tcl'}"]
    if places:
        software, tree = places
        argv += [f"--installpath-software={software}", f"--installpath-modules={tree.parent}"]
        argv += [f"--suffix-modules-path={tree.name}"]
    return argv


def _restore_provenance(own: Installed) -> None:
    """Write the provenance from the record next to the installed image, so that the update can use this image.

    Without it, an image pinned by digest would be fetched again, since nothing shows that this file has that digest.
    """
    image, known = Path(own.image.path), own.record.provenance
    if known is None or not image.is_file() or own.root not in image.parents or Sif(image).sidecar.exists():
        return
    Sif(image).write_provenance(known, None)


def _directories(own: Installed) -> tuple[Path, Path] | None:
    """Return the directory of installations, and the module tree of an installation; None if they are unusual."""
    software, tree = _without(own.root, own.module), _without(own.modulefile.with_name(own.version), own.module)
    return (software, tree) if software and tree else None


def _without(path: Path, module: str) -> Path | None:
    """Return a path without the module's name at its end; None if it does not end so."""
    end = f"/{module}"
    return Path(str(path)[: -len(end)]) if str(path).endswith(end) else None
