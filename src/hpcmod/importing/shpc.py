"""Recipes of singularity-hpc: one easyconfig for each tag of a container.yaml, pinned to the given digest."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.values.reference import ImageReference, is_digest, is_tag
from hpcmod.importing.formats import ImportFormat, ImportOption
from hpcmod.importing.outcome import (
    MOVING,
    UNPINNED,
    Findings,
    ImportedEasyconfig,
    Outcome,
    Refused,
    convert_files,
    of_registry,
    refused,
    settle_names,
    shell_text,
    shown_text,
    with_registry,
)
from hpcmod.importing.values.container_yaml import Alias, ContainerYaml, override_recipe, parse_container_yaml
from hpcmod.modules import read_recipe
from hpcmod.modules.values.easyconfig import EasyconfigText
from hpcmod.modules.values.spec import is_program, why_no_variable

_SHELL = re.compile(r"[$`&|;<>(){}*?~\\\n]|^\s*(?:\.|source)\s|^\w+=")
_OTHER_MACHINE = re.compile(r"(?:^|[-_.])(arm64|aarch64|ppc64le|s390x|riscv64)(?:$|[-_.])")
_STANDARD = ("run", "exec", "shell", "container", "inspect-runscript", "inspect-deffile")
"""Commands that singularity-hpc gives every module: NAME-run and so on."""


def import_shpc(paths: Iterable[Path], *, full_names: bool = False) -> tuple[Outcome, ...]:
    """Convert container.yaml files, and all below directories."""

    def convert(text: str, path: Path) -> Iterator[Outcome]:
        return convert_recipe(parse_container_yaml(text, str(path)), path)

    return settle_names(convert_files(paths, "container.yaml", convert), full_names=full_names)


def convert_recipe(recipe: ContainerYaml, path: Path) -> Iterator[Outcome]:
    """Convert a recipe: yield one outcome per tag, except for `latest` if it is another tag's image."""
    if recipe.kind not in ("docker", "oras"):
        where = {"gh": "a release on GitHub", "path": f"the file {recipe.source!r}"}[recipe.kind]
        yield Refused(str(path), f"its image is {where}: get the SIF, then hpcmod import sif")
        return
    if not recipe.tags:
        yield Refused(str(path), "it has no tags")
    latest = dict(recipe.tags).get("latest")
    same = next(
        (tag for tag, digest in recipe.tags if digest and digest == latest and is_tag(tag) and tag != "latest"), ""
    )
    for tag, digest in recipe.tags:
        if tag == "latest" and same:
            continue
        origin = f"{path}: {tag[:60]!r}" if not is_tag(tag) else f"{path}: {tag}"
        reason = _why_not(tag, digest)
        try:
            outcome = Refused(origin, reason) if reason else _convert_tag(recipe, tag, digest, path)
        except HpcmodError as err:
            outcome = refused(origin, err)
        if tag == same and isinstance(outcome, ImportedEasyconfig):
            outcome = replace(outcome, notes=(*outcome.notes, "the tag latest is the same image"))
        yield outcome


def _why_not(tag: str, digest: str) -> str:
    """Return why a tag cannot be converted; empty if it can."""
    if not is_tag(tag):
        return "is not a valid tag: at most 128 letters, digits, _ . and - (perhaps part of an error page)"
    if digest and not is_digest(digest):
        return f"{digest[:60]!r} is not a valid digest"
    return MOVING if tag == "latest" and not digest else ""


def _convert_tag(recipe: ContainerYaml, tag: str, digest: str, path: Path) -> ImportedEasyconfig:
    image = f"{recipe.kind}://{with_registry(recipe.source)}:{tag}" + (f"@{digest}" if digest else "")
    reference = ImageReference.parse(image)
    *_, name = parts = reference.repository.split("/")
    said = Findings(notes=[] if digest else [UNPINNED])
    recipe = _overridden(recipe, tag, path, said)
    commands = _commands(recipe.aliases, said)
    standard = ", ".join(f"{name}-{suffix}" for suffix in _STANDARD)
    said.changed.append(
        "instead of the commands of every module of singularity-hpc, use start-shell, or `singularity run`, `exec` or "
        f"`inspect` with $SIF: {standard}"
    )
    said.changed.append("$SINGULARITY_CONTAINER is not set by the module: write $SIF")
    easyconfig = EasyconfigText(
        name,
        f"{tag}-{digest[7:15]}" if tag == "latest" else tag,
        "",
        recipe.description,
        homepage=recipe.url,
        environment=tuple(pair for pair in recipe.environment if not why_no_variable(*pair)),
        parameters=(("upstream_contacts", [recipe.maintainer]),) if recipe.maintainer else (),
    )
    _report(recipe, said)
    easyconfig = of_registry(easyconfig, reference, commands, said)
    other = _OTHER_MACHINE.search(tag)
    if other:
        said.notes.append(f"the tag names another architecture, {other[1]}")
    return said.outcome(f"{path}: {tag}", easyconfig, namespace=(reference.registry, *parts[:-1]))


def _overridden(recipe: ContainerYaml, tag: str, path: Path, said: Findings) -> ContainerYaml:
    """Return the recipe with the override file for a tag."""
    file = dict(recipe.overrides).get(tag)
    if file is None:
        return recipe
    path = path.parent / file
    if posixpath.isabs(file) or ".." in Path(file).parts:
        said.left_out.append(f"overrides for this tag: {file} is not beside the recipe")
        return recipe
    try:
        changed = override_recipe(recipe, read_recipe(path), str(path))
    except HpcmodError as err:
        said.left_out.append(f"overrides for this tag: {err.message}")
        return recipe
    said.notes.append(f"with the overrides for this tag: {file}")
    return changed


def _commands(aliases: Iterable[Alias], said: Findings) -> dict[str, tuple[str, ...]]:
    """Return the aliases that a wrapper can replace, each with the words it runs."""
    chosen = dict[str, tuple[str, ...]]()
    for alias in aliases:
        try:
            chosen[alias.name] = _words(alias)
        except BadInputError as err:
            said.left_out.append(f"the alias {alias.name}, {err.message}")
            continue
        said.left_out += [
            f"{key} of the alias {alias.name}: {shown_text(value)}" for key, value in alias.options if value
        ]
    return chosen


def _words(alias: Alias) -> tuple[str, ...]:
    """Return the words that an alias runs.

    Raises BadInputError if only a shell could run it, or it is empty.
    """
    shown = repr(shown_text(alias.command))
    if _SHELL.search(alias.command.strip()):
        raise BadInputError(f"which needs a shell: {shown}", "")
    try:
        words = tuple(shlex.split(alias.command))
    except ValueError as err:
        raise BadInputError(f"which cannot be parsed: {shown}", "") from err
    if not words:
        raise BadInputError("which runs nothing", "")
    if not is_program(words[0]):
        raise BadInputError(f"which runs neither a name nor an absolute path: {shown}", "")
    return words


def _report(recipe: ContainerYaml, said: Findings) -> None:
    for name, value in recipe.environment:
        if reason := why_no_variable(name, value):
            cure = f"; after loading the module: export SINGULARITYENV_{name}={shell_text(value)}" if value else ""
            said.left_out.append(f"a variable of the container: {reason}{cure}")
    for name, value in recipe.features:
        if name != "gpu" and value.lower() not in ("", "false", "no", "off", "~", "null"):
            said.left_out.append(f"features: {name} ({value}){_FEATURES.get(name, '')}")
    for name, text in recipe.scripts:
        said.left_out.append(f"programs of the recipe: {name}: {shown_text(text)}")
    if recipe.filters:
        said.left_out.append(f"filter, which only matters to updates of the recipe: {', '.join(recipe.filters)}")
    if recipe.unknown:
        said.left_out.append(f"unknown keys: {', '.join(recipe.unknown)}")


_FEATURES = {
    "home": ": before loading the module, export SINGULARITY_HOME, or use `singularity exec --home`",
    "x11": ": before loading the module, export SINGULARITY_BINDPATH=$HOME/.Xauthority",
}


FORMAT = ImportFormat(
    "Convert recipes of singularity-hpc (container.yaml) to one easyconfig per tag, pinned to its digest.",
    lambda paths, _, **options: import_shpc(paths, **options),
    examples=("~/shpc-registry/quay.io --output ours", "container.yaml --dry-run --json"),
    options=(
        ImportOption(
            "full-names", "Put the last part of the image's namespace in front of each name: biocontainers-samtools."
        ),
    ),
)
