"""The command `hpcmod install`: install private copies of published containers, or easyconfigs, with `eb`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from hpcmod.catalogue.cli.accept import AcceptedLicences, accept_licences
from hpcmod.catalogue.cli.containers import Here, check_not_loaded, complete_image, look_around, names_image
from hpcmod.catalogue.cli.easyconfigs import EasyconfigFile, eb_environ, find_easyconfig, find_recipe, is_easyconfig
from hpcmod.catalogue.cli.image import ImageRequest, fetch_with_easyconfig, plan_with_easyconfig
from hpcmod.catalogue.finding.copies import loading_lines
from hpcmod.catalogue.values.lifecycle import choose_default
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import json_option, print_data, print_json, print_text, tell
from hpcmod.modules import (
    Installed,
    SharedPrefix,
    choose_prefix,
    configured_places,
    find_in_trees,
    find_installed,
    install_with_eb,
    mark_default,
    sharing,
    source_directories,
)
from hpcmod.modules.values.install_record import MODULES

_DRY_RUN = ("--extended-dry-run", "--disable-extended-dry-run-ignore-errors", "--ignore-locks")


@dataclass(frozen=True)
class NewCopy:
    """Your own copy of a container."""

    module: str
    root: Path | None
    """Directory of the installation; null if EasyBuild's configuration put it where hpcmod does not look."""
    load: tuple[str, ...]
    """Commands that load it in this shell."""


@dataclass(frozen=True)
class InstallResult:
    """The installed modules."""

    status: int
    """Exit status of `eb`."""
    dry_run: bool
    easyconfigs: tuple[str, ...]
    """Easyconfigs that were given, as `eb` got them, and those that were written for images."""
    containers: tuple[NewCopy, ...]
    """Containers that were named."""


@dataclass(frozen=True)
class InstallFlags:
    """Arguments and options of `hpcmod install`."""

    containers: tuple[str, ...]
    name: str
    version: str
    prefix: Path | None
    dry_run: bool
    rebuild: bool
    accept_licence: bool
    yes: bool
    site: str | None
    as_json: bool


@click.command()
@click.argument(
    "containers", metavar="NAME[/VERSION]|IMAGE|EASYCONFIG...", nargs=-1, required=True, shell_complete=complete_image
)
@click.option("--name", default="", help="Name of the module of an image (default: as the image says).")
@click.option("--version", default="", help="Version of the module of an image (default: as the image says).")
@click.option(
    "--prefix",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="Directory to install below (default: EASYBUILD_PREFIX, else the site's place for your own copies).",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and install nothing.")
@click.option("--rebuild", is_flag=True, help="Install again; your own packages and an unchanged image are kept.")
@click.option(
    "--accept-licence", is_flag=True, help="Show the licences of these containers and accept them; install nothing."
)
@click.option("-y", "--yes", is_flag=True, help="With --accept-licence: accept without a question.")
@site_option
@json_option(InstallResult, AcceptedLicences)
@with_flags(InstallFlags)
def install(flags: InstallFlags) -> None:
    """Install container modules by name, image or easyconfig.

    Names are those of the catalogues; NAME/ALIAS works, too. You get your own copy, separate from the site's, and the
    command that loads it. An easyconfig ends in .eb, or is a path that starts with / or a dot.

    An image is docker://HOST/NAME:TAG, oras://..., https://..., oci:DIRECTORY, an archive or a SIF. It is fetched and
    verified, and the module is NAME/TAG, or what the file name says, or the image's labels. The image stays in
    EasyBuild's source path with an easyconfig that you can change, publish, bundle and install again.

    A licence is accepted once, for your own copy and for the site's. If the site changes its text, you are asked again.

    \b
    Examples:
      hpcmod install PyTorch
      hpcmod install docker://docker.io/pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime
      hpcmod install ./torch.sif --name PyTorch --version 2.7.1
      hpcmod install --prefix /project/project_465000001/$USER/easybuild PyTorch
      hpcmod install PyTorch-2.7.1-rocm-6.2.4-singularity.eb
      hpcmod install --dry-run --site lumi PyTorch-2.7.1-rocm-6.2.4-singularity.eb
      hpcmod install --accept-licence Solver/3.1
    """
    here = look_around(flags.site)
    if flags.accept_licence:
        accept_licences(here, flags.containers, yes=flags.yes, as_json=flags.as_json)
        return
    prefix = choose_prefix(here.site, os.environ, asked=flags.prefix)
    given = tuple(dict.fromkeys(flags.containers))
    images = [text for text in given if names_image(text)]
    if (flags.name or flags.version) and (len(images), len(given)) != (1, 1):
        raise click.UsageError("--name and --version name the module of one image: give one image, and nothing else")
    names = [text for text in given if text not in images and not is_easyconfig(text)]
    recipes = [find_recipe(here, text) for text in names]
    for recipe in recipes:
        check_not_loaded(recipe.module)
    files = [find_easyconfig(text) for text in given if text not in (*names, *images)]
    before = _find_own(flags, prefix) if files else {}
    places = None if flags.dry_run else configured_places(prefix, os.environ)
    with TemporaryDirectory(prefix="hpcmod-") as plans, sharing(places, os.environ) as shared:
        sources = source_directories(prefix, os.environ)[0]
        for text in images:
            request = ImageRequest(text, flags.name, flags.version, sources, shared, flags.rebuild)
            planned = plan_with_easyconfig(here, request, Path(plans)) if flags.dry_run else None
            recipes.append(planned or fetch_with_easyconfig(here, request))
        status = _run_eb(here, flags, files, recipes, (prefix, shared), plans)
    if flags.dry_run:
        tell("this was a dry run: nothing was installed")
    made = [] if status or flags.dry_run else recipes
    trees = [*([prefix / MODULES] if prefix else []), *look_around(flags.site).own_trees()] if made else []
    # None: eb is configured otherwise
    copies = {recipe.module: next(find_in_trees(trees, recipe.module), None) for recipe in made}
    if files and not status and not flags.dry_run:  # only `eb` knows which modules they make
        after = _find_own(flags, prefix)
        copies.update((own.module, own) for key, own in after.items() if key not in before)
    for module, own in copies.items():
        if own and _is_default(here, module):
            mark_default(own, shared)
        if not flags.as_json:
            _show_how_to_load(module, own)
    if flags.as_json:
        written = (
            [] if flags.dry_run else [str(recipe.images / recipe.easyconfig.name) for recipe in recipes[len(names) :]]
        )
        listed = [
            NewCopy(module, own.root if own else None, tuple(loading_lines(own, os.environ) if own else ()))
            for module, own in copies.items()
        ]
        print_json(InstallResult(status, flags.dry_run, (*files, *written), tuple(listed)))
    sys.exit(status)


def _find_own(flags: InstallFlags, prefix: Path | None) -> dict[tuple[Path, int], Installed]:
    """Return the user's own installations, by modulefile and the time at which that was written."""
    trees = [*([prefix / MODULES] if prefix else []), *look_around(flags.site).own_trees()]
    return {(own.modulefile, own.modulefile.stat().st_mtime_ns): own for own in find_installed(trees)}


def _run_eb(
    here: Here,
    flags: InstallFlags,
    files: Sequence[str],
    recipes: Sequence[EasyconfigFile],
    place: tuple[Path | None, SharedPrefix | None],
    plans: str,
) -> int:
    """Install easyconfigs, and what is not installed yet of containers and images; return the exit status of `eb`.

    `plans`: For a dry run, the temporary directory that the easyconfigs of images are below; the plan is printed
        without it.
    """
    prefix, shared = place
    print_plan = (lambda text: print_text(text.replace(plans, ""))) if flags.dry_run and not flags.as_json else None
    environ = eb_environ(flags.site, [recipe.images for recipe in recipes])
    again = flags.rebuild or flags.dry_run
    wanted = [recipe for recipe in recipes if again or not _is_installed(here, recipe, asked=flags.prefix)]
    options = [*_place(prefix, shared), *(_DRY_RUN if flags.dry_run else ())]
    run = partial(install_with_eb, environ=environ, shared=shared, tell=tell, print_plan=print_plan)
    shown = not (flags.as_json or flags.dry_run)
    status = 0
    if files:  # `eb` would take the site's module for the copy to install, also one that is retired
        copied = {**environ, "MODULEPATH": ":".join(map(str, here.unpublished(environ)))}
        status = run([*files, *options, *["--rebuild"] * flags.rebuild], environ=copied, shown=shown)
    if status or not wanted:
        return status
    rebuild = ["--rebuild", "--module-naming-scheme=EasyBuildMNS"]
    return run([*(str(recipe.easyconfig) for recipe in wanted), *options, *rebuild])


def _place(prefix: Path | None, shared: SharedPrefix | None) -> list[str]:
    if prefix is None:
        places = (("software", shared.software), ("modules", shared.modules)) if shared else ()
        return [f"--installpath-{name}={path}" for name, path in places]
    software = [f"--installpath-software={prefix}/software", f"--installpath-modules={prefix}/modules"]
    return [f"--prefix={prefix}", f"--installpath={prefix}", *software, "--suffix-modules-path=all"]


def _is_installed(here: Here, recipe: EasyconfigFile, *, asked: Path | None) -> bool:
    """Return whether the user has the same container already, below the prefix if given; if so, report it."""
    trees = [asked.absolute() / MODULES] if asked else here.own_trees()
    own = next(find_in_trees(trees, recipe.module), None)
    if own is None or own.image.sha256 != recipe.sha256 or not Path(own.image.path).is_file():
        return False
    tell(f"your own copy of {own.module} is already installed in {own.root}; --rebuild installs it again")
    return True


def _show_how_to_load(module: str, own: Installed | None) -> None:
    if own is None:
        tell(f"{module} is below the installpath of `eb --show-config`; before you load it: module use DIRECTORY")
        return
    tell(f"your own copy is in {own.root}; to load it:")
    print_data("; ".join(loading_lines(own, os.environ)))


def _is_default(here: Here, module: str) -> bool:
    """Return whether a catalogue has this container as the default version of its name."""
    name = module.partition("/")[0]
    defaults = (choose_default(catalogue.named(name)) for catalogue in here.catalogues)
    return any(record is not None and record.module == module for record in defaults)
