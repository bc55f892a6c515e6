"""Recipes of singularity-hpc: one easyconfig for each tag of a container.yaml, pinned to the given digest."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from hpcmod.errors import BadInputError, HpcmodError
from hpcmod.importing.formats import ImportFormat
from hpcmod.importing.outcome import (
    UNPINNED,
    ImportedEasyconfig,
    Outcome,
    Refused,
    convert_files,
    describe_registry_image,
    refused,
    settle_names,
    with_registry,
)
from hpcmod.model.container_yaml import Alias, ContainerYaml, parse_container_yaml
from hpcmod.model.images.reference import ImageReference, is_digest, is_tag
from hpcmod.model.spec import is_program, why_no_variable

MOVING = "latest"
"""The tag that can mean another image tomorrow."""

_ON_PATH = ("", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/conda/bin")
_SHELL = re.compile(r"[$`&|;<>(){}*?~\\\n]|^\s*(?:\.|source)\s|^\w+=")


def import_shpc(paths: Iterable[Path]) -> tuple[Outcome, ...]:
    """Convert container.yaml files, and all below directories."""
    return settle_names(convert_files(paths, ("container.yaml",), _convert_text))


def _convert_text(text: str, path: Path) -> Iterator[Outcome]:
    return convert_recipe(parse_container_yaml(text, str(path)), path)


def convert_recipe(recipe: ContainerYaml, path: Path) -> Iterator[Outcome]:
    """Convert a recipe: yield one outcome per tag."""
    if recipe.kind not in ("docker", "oras"):
        where = {"gh": "a release on GitHub", "path": f"the file {recipe.source[:80]!r}"}[recipe.kind]
        yield Refused(str(path), f"its image is {where}: get the SIF, then hpcmod import sif")
        return
    if not recipe.tags:
        yield Refused(str(path), "it has no tags")
    versions = {digest: tag for tag, digest in recipe.tags if digest and tag != MOVING}
    for tag, digest in recipe.tags:
        origin = f"{path}: {tag[:60]!r}" if not is_tag(tag) else f"{path}: {tag}"
        reason = _why_not(tag, digest, versions)
        try:
            yield Refused(origin, reason) if reason else _convert_tag(recipe, tag, digest, origin)
        except HpcmodError as err:
            yield refused(origin, err)


def _why_not(tag: str, digest: str, versions: dict[str, str]) -> str:
    """Return why a tag cannot be converted; empty if it can."""
    if not is_tag(tag):
        return "is not a valid tag: at most 128 letters, digits, _ . and - (perhaps part of an error page)"
    if digest and not is_digest(digest):
        return f"{digest[:60]!r} is not a valid digest"
    if tag == MOVING and not digest:
        return "the tag latest without a digest can mean another image tomorrow"
    if tag == MOVING and digest in versions:
        return f"is the same image as {versions[digest]}"
    return ""


def _convert_tag(recipe: ContainerYaml, tag: str, digest: str, origin: str) -> ImportedEasyconfig:
    reference = ImageReference.parse(_reference(recipe, tag, digest))
    *_, name = parts = reference.repository.split("/")
    commands, of_aliases = _commands(recipe.aliases)
    easyconfig, left_out = describe_registry_image(
        name,
        f"{tag}-{digest[7:15]}" if tag == MOVING else tag,
        reference,
        description=recipe.description,
        url=recipe.url,
        commands=commands,
        words={name: words for name, words in commands.items() if words != (name,)},
        environment=[pair for pair in recipe.environment if not why_no_variable(*pair)],
    )
    return ImportedEasyconfig(
        origin,
        easyconfig,
        (*of_aliases, *left_out, *_left_out(recipe, tag)),
        () if digest else (UNPINNED,),
        namespace=(reference.registry, *parts[:-1]),
    )


def _reference(recipe: ContainerYaml, tag: str, digest: str) -> str:
    """Return the reference with a registry: without one, the runtime uses Docker Hub."""
    return f"{recipe.kind}://{with_registry(recipe.source)}:{tag}" + (f"@{digest}" if digest else "")


def _commands(aliases: Iterable[Alias]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the aliases that a wrapper can replace, each with the words it runs, and notes on what is lost."""
    chosen, said = dict[str, tuple[str, ...]](), list[str]()
    for alias in aliases:
        try:
            chosen[alias.name] = _words(alias)
        except BadInputError as err:
            said.append(f"the alias {alias.name[:60]}, {err.message}")
            continue
        if alias.options:
            said.append(f"{', '.join(alias.options)[:80]} of the alias {alias.name}")
    return chosen, said


def _words(alias: Alias) -> tuple[str, ...]:
    """Return the words that an alias runs.

    Raises
    ------
    BadInputError
        If only a shell could run it, or it is empty.
    """
    shown = repr(alias.command[:80])
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
    if posixpath.dirname(words[0]) in _ON_PATH and len(words) == 1 and posixpath.basename(words[0]) == alias.name:
        return (alias.name,)
    return words


def _left_out(recipe: ContainerYaml, tag: str) -> Iterator[str]:
    for name, value in recipe.environment:
        if reason := why_no_variable(name, value):
            yield f"a variable of the container: {reason}"
    wanted = [name for name, value in recipe.features if name != "gpu" and value.lower() not in ("false", "no", "off")]
    if wanted:
        yield f"features: {', '.join(wanted)[:100]}"  # GPU access is set by the site profile
    if tag in recipe.overrides:
        yield "overrides for this tag, which are in another file"
    if recipe.scripts:
        yield f"programs of the recipe: {', '.join(recipe.scripts)}"
    if recipe.unknown:
        yield f"unknown keys: {', '.join(recipe.unknown)[:100]}"


FORMAT = ImportFormat(
    "Convert recipes of singularity-hpc (container.yaml) to one easyconfig per tag, pinned to its digest.",
    lambda paths, _: import_shpc(paths),
    examples=("~/shpc-registry/quay.io --output ours", "container.yaml --dry-run --json"),
)
