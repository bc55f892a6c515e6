"""The command `hpcmod build`: build a SIF from a recipe, a directory with a Dockerfile, or a definition file."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from hpcmod.building.shipped import shipped_recipes
from hpcmod.building.values.build_plan import with_compression
from hpcmod.building.values.recipe import ARCHITECTURES, CHOICES, Recipe, parse_recipe
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.flags import nested, with_flags
from hpcmod.core.cli.output import json_option, print_data, print_json, print_text, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.progress import ProgressLine
from hpcmod.core.resources import module_templates
from hpcmod.core.values.compression import ANY_OF
from hpcmod.machine import find_machine

if TYPE_CHECKING:
    from hpcmod.building.image import BuildOptions
    from hpcmod.building.ingredients import SourceStore
    from hpcmod.building.values.build_plan import BuildPlan
    from hpcmod.building.values.building import BuildRequest

_PATH = click.Path(path_type=Path)


@dataclass(frozen=True)
class RecipeFlags:
    """Options that choose parts of a recipe."""

    mpi: str | None
    ofi: str | None
    extras: tuple[str, ...]
    settings: tuple[str, ...]
    base: str
    host_libs: Path | None
    wheel_dir: Path | None


@dataclass(frozen=True)
class SourceFlags:
    """Options that say where the sources of a recipe come from."""

    offline_sources: Path | None
    offline: bool
    lock: Path | None


@dataclass(frozen=True)
class BuildFlags:
    """Arguments and options of `hpcmod build`."""

    source: str
    output: Path | None
    recipe: RecipeFlags = field(metadata=nested(RecipeFlags))
    sources: SourceFlags = field(metadata=nested(SourceFlags))
    dockerfile: Path | None
    arch: str | None
    engine: str | None
    listed: bool
    printed: str | None
    dry_run: bool
    force: bool
    compression: str | None
    site: str | None
    as_json: bool


@dataclass(frozen=True)
class RecipeList:
    """With --list: the recipes."""

    recipes: tuple[Recipe, ...]


def complete_recipe(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a recipe, with its summary as help."""
    recipes = [parse_recipe(text, name) for name, text in shipped_recipes().items() if name.startswith(incomplete)]
    named = [CompletionItem(recipe.name, help=recipe.summary) for recipe in recipes]
    return named or [CompletionItem(incomplete, type="file")]


@click.command()
@click.argument(
    "source", metavar="RECIPE|DIRECTORY|FILE.def", required=False, default="", shell_complete=complete_recipe
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=_PATH,
    help="File to write (default: NAME-FINGERPRINT.sif in this directory).",
)
@click.option("--mpi", type=click.Choice(CHOICES["mpi"]), help="MPI in the image (default: the recipe's).")
@click.option(
    "--ofi",
    type=click.Choice(CHOICES["ofi"]),
    help="libfabric in the image: with the network's provider, or swapped for the host's at run time.",
)
@click.option("--with", "extras", multiple=True, metavar="NAME,...", help="Optional parts of the recipe.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Version to use instead of the recipe's, or an index of wheels.",
)
@click.option("--base", default="", metavar="IMAGE", help="Base image to use instead of the recipe's.")
@click.option("--host-libs", metavar="DIRECTORY", type=_PATH, help="Host libraries to copy into the image.")
@click.option("--wheel-dir", metavar="DIRECTORY", type=_PATH, help="Wheels; pip installs from here only.")
@click.option("--offline-sources", metavar="DIRECTORY", type=_PATH, help="Directory to search for sources first.")
@click.option("--offline", is_flag=True, help="Download no sources, and report the missing ones.")
@click.option("--lock", metavar="FILE", type=_PATH, help="Lock file with the checksums of a recipe's sources.")
@click.option(
    "-f",
    "--file",
    "dockerfile",
    metavar="FILE",
    type=_PATH,
    help="Dockerfile, here or in DIRECTORY.",
)
@click.option(
    "--arch",
    type=click.Choice(ARCHITECTURES),
    help="Architecture of a plan (default: this machine's).",
)
@click.option("--engine", metavar="NAME", help="Build engine (default: the first that works).")
@click.option("--list", "listed", is_flag=True, help="List the recipes.")
@click.option(
    "--print",
    "printed",
    type=click.Choice(("dockerfile", "definition")),
    help="Print what an engine would build from; build nothing.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan; build nothing.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--compression", metavar="NAME[:LEVEL]", help=f"{ANY_OF} (default: the site's).")
@site_option
@json_option("hpcmod.building.image:Built", "hpcmod.building.values.build_plan:BuildPlan", RecipeList)
@with_flags(BuildFlags)
def build(flags: BuildFlags) -> None:
    """Build an image with MPI, libfabric and the network plugin.

    RECIPE is one of --list, or a directory with recipe.toml. A directory with a Dockerfile, or a definition file, is
    built as it is.

    Needs one of buildah, podman, apptainer or singularity, but no root. An image that was already built from
    the same recipe, options and sources is not built again.

    \b
    Examples:
      hpcmod build --list
      hpcmod build pytorch-cpu --mpi mpich --set index=URL -o torch.sif
      hpcmod build pytorch-ngc-ofi --ofi swap --with nccl-tests --print dockerfile
      hpcmod build pytorch-rocm-wheels --wheel-dir ~/wheels
      hpcmod build recipes/app -o app.sif
      hpcmod build . -f singularity/Dockerfile -o mine.sif
      hpcmod build app.def -o app.sif
    """
    if flags.listed:
        _list(flags.as_json)
    elif not flags.source:
        cure = "List the recipes with hpcmod build --list, or give a directory with a Dockerfile, or a definition file."
        raise BadInputError("nothing to build: no recipe given", cure)
    elif flags.printed:
        _print_file(_plan(flags, flags.arch or _architecture()), flags.printed, flags.as_json)
    elif flags.dry_run:
        _print_plan(_plan(flags, flags.arch or _architecture()), flags.as_json)
    else:
        with terminate_cleanly():
            _build(flags)


def _list(as_json: bool) -> None:
    recipes = [parse_recipe(text, name) for name, text in shipped_recipes().items()]
    if as_json:
        print_json(RecipeList(tuple(recipes)))
        return
    for recipe in recipes:
        print_text(f"{recipe.name}: {recipe.summary}")


def _print_file(plan: BuildPlan, form: str, as_json: bool) -> None:
    from hpcmod.building.text.recipe import render_definition, render_dockerfile

    if as_json:
        raise BadInputError(f"--print {form} prints plain text, not JSON", "Leave out --json, or use --dry-run.")
    if plan.own_form:
        raise BadInputError("--print is for recipes: your own file is built as it is", "Use --dry-run.")
    render = render_dockerfile if form == "dockerfile" else render_definition
    print_data(render(plan, templates=module_templates()), nl=False)


def _print_plan(plan: BuildPlan, as_json: bool) -> None:
    from hpcmod.building.text.recipe import render_build_plan

    if as_json:
        print_json(plan)
    else:
        print_text(render_build_plan(plan), nl=False)


def _architecture() -> str:
    """Return the name of this machine's architecture."""
    from hpcmod.core.values.facts import architecture_name

    return architecture_name(platform.machine())


def _plan(flags: BuildFlags, architecture: str) -> BuildPlan:
    """Return the build plan; download nothing."""
    from hpcmod.building.ingredients import find_recipe, plan_own, plan_recipe

    request, recipe = _request(flags.recipe, architecture), find_recipe(flags.source, flags.dockerfile)
    own = None if recipe else plan_own(Path(flags.source), request, dockerfile=flags.dockerfile)
    return with_compression(own or plan_recipe(recipe, request, store=_source_store(flags)), flags.compression)


def _request(flags: RecipeFlags, architecture: str) -> BuildRequest:
    from hpcmod.building.values.building import BuildRequest

    settings = dict(_setting(text) for text in flags.settings)
    extras = [name.strip() for text in flags.extras for name in text.split(",") if name.strip()]
    return BuildRequest(
        architecture=architecture,
        mpi=flags.mpi or "",
        ofi=flags.ofi or "",
        extras=tuple(extras),
        settings=settings,
        base=flags.base,
        host_libs=str(flags.host_libs.absolute()) if flags.host_libs else "",
        wheels=str(flags.wheel_dir.absolute()) if flags.wheel_dir else "",
    )


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise BadInputError(f"--set {text}: expected KEY=VALUE", "For example: --set torch=2.2.2")
    return key, value


def _source_store(flags: BuildFlags) -> SourceStore:
    from hpcmod.building.ingredients import SourceStore, default_lock
    from hpcmod.images import open_cache

    cache = open_cache(find_machine(None, os.environ, flag=flags.site).site, os.environ)
    return SourceStore(
        lock=flags.sources.lock or default_lock(os.environ),
        downloads=cache.directory / "sources",
        offline_sources=flags.sources.offline_sources,
        offline=flags.sources.offline,
        tell=tell,
    )


def _build(flags: BuildFlags) -> None:
    from hpcmod.building.image import build_image, prepare_build
    from hpcmod.building.ingredients import find_recipe, gather, read_used, record_first_use

    here = _architecture()
    if flags.arch not in (None, here):
        message = f"this machine is {here}, and cannot build for {flags.arch}"
        raise LackingError(message, f"Build on a machine of architecture {flags.arch}.")
    plan, options = _plan(flags, here), _options(flags)
    recipe = find_recipe(flags.source, flags.dockerfile)
    if recipe:
        if not flags.sources.offline:
            options = prepare_build(plan, _output(plan, flags), options=options)
        with ProgressLine(flags.source) as progress:
            plan = gather(recipe, _request(flags.recipe, here), store=_source_store(flags), progress=progress)
            plan = with_compression(plan, flags.compression)
    out = _output(plan, flags)
    with ProgressLine(out.name) as progress:
        built = build_image(plan, out, options=options, progress=progress)
    if built.reused:
        tell(f"{out}: already exists, built from the same recipe and sources")
    elif plan.steps:
        record_first_use(read_used(built.path), store=_source_store(flags))
    if flags.as_json:
        print_json(built)
    else:
        print_data(built.path)


def _options(flags: BuildFlags) -> BuildOptions:
    from hpcmod.building.image import BuildOptions
    from hpcmod.images import Access, make_options

    site = find_machine(None, os.environ, flag=flags.site).site
    return BuildOptions(
        environ=os.environ,
        engine=flags.engine,
        conversion=make_options(site, os.environ, use_cache=False, compression=flags.compression).conversion,
        policy=site.images.trust,
        access=Access(announce=tell),
        replace=flags.force,
        tell=tell,
    )


def _output(plan: BuildPlan, flags: BuildFlags) -> Path:
    """Return the path of the SIF; by default its name contains the fingerprint of the plan."""
    return flags.output or Path(f"{plan.recipe}-{plan.fingerprint[:12]}.sif")
