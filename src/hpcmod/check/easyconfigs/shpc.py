"""Rules for recipes of singularity-hpc: tags, digests, and aliases that break its modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from hpcmod.check.easyconfigs.context import fault, line_of
from hpcmod.model.container_yaml import ContainerYaml
from hpcmod.model.finding import FAIL, WARN, Finding
from hpcmod.model.images.reference import is_digest, is_tag
from hpcmod.model.spec import HOST_COMMANDS

_MOST_ALIASES = (
    250  # its module has all names in one conflict() call, and Lua has no registers for more: tested with 0.1.32
)


def _tags(recipe: ContainerYaml, text: str, _: Path) -> Iterator[Finding]:
    for tag, digest in recipe.tags:
        line = line_of(text, tag.splitlines()[0] if tag else "tags")
        if not is_tag(tag):
            what = f"{tag[:60]!r} is not a valid tag (perhaps part of an error page)"
            yield fault(line, "does-not-load", FAIL, what, "Remove it.")
        elif digest and not is_digest(digest):
            yield fault(
                line, "no-checksum", FAIL, f"{digest[:60]!r} is not a valid digest", "Use sha256: and 64 digits."
            )
        elif tag == "latest":
            what = "the tag latest can mean another image tomorrow"
            yield fault(line, "moving-tag", WARN if digest else FAIL, what, "Use a version, with its digest.")
        elif not digest:
            what = f"no digest identifies the image {tag}"
            yield fault(line, "no-checksum", FAIL, what, "Add the digest from the registry.")


def _aliases(recipe: ContainerYaml, text: str, _: Path) -> Iterator[Finding]:
    line = line_of(text, "aliases")
    if len(recipe.aliases) > _MOST_ALIASES:
        what = (
            f"{len(recipe.aliases)} aliases: singularity-hpc's Lua module does not load with more than {_MOST_ALIASES}"
        )
        yield fault(line, "does-not-load", FAIL, what, "To convert it: hpcmod import shpc")
    for alias in recipe.aliases:
        if alias.name in HOST_COMMANDS:
            what = f"the alias {alias.name} hides the host's {alias.name} when the module is loaded"
            yield fault(line_of(text, alias.name), "hides-command", WARN, what, "Remove it.")


def _paths(recipe: ContainerYaml, text: str, _: Path) -> Iterator[Finding]:
    for name, value in recipe.environment:
        if name.endswith("PATH") and (value.startswith(":") or re.search(r"::|:$", value)):
            what = f"{name} has an empty element, which means the current directory"
            yield fault(line_of(text, name), "empty-path", FAIL, what, "Remove one of the colons.")


def _directory(recipe: ContainerYaml, text: str, path: Path) -> Iterator[Finding]:
    last = recipe.source.rpartition("/")[2]
    if path.absolute().parent.name != last and recipe.kind in ("docker", "oras"):
        what = f"the recipe is in {path.absolute().parent.name}, but installs {last}"
        yield fault(line_of(text, recipe.kind), "file-name", WARN, what, f"Move it to a directory {last}.")


SHPC_RULES: tuple[Callable[[ContainerYaml, str, Path], Iterator[Finding]], ...] = (
    _tags,
    _aliases,
    _paths,
    _directory,
)
"""Every rule for recipes of singularity-hpc."""
