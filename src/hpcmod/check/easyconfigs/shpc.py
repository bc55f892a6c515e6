"""Rules for recipes of singularity-hpc: tags, digests, and aliases that break its modules."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from hpcmod.check.easyconfigs.context import fault, line_of
from hpcmod.check.easyconfigs.files import read_recipe
from hpcmod.errors import HpcmodError
from hpcmod.model.container_yaml import ContainerYaml, override_recipe
from hpcmod.model.finding import FAIL, WARN, Finding
from hpcmod.model.images.reference import is_digest, is_tag
from hpcmod.model.spec import HOST_COMMANDS

_MOST_ALIASES = (
    250  # its module has all names in one conflict() call, and Lua has no registers for more: tested with 0.1.32
)


_REGISTRIES = ("docker", "oras")
"""Kinds of images that a digest identifies; a release on GitHub has only its tag."""

_USUAL_COMMANDS = frozenset(
    {
        *(
            "awk",
            "bzip2",
            "cat",
            "cmake",
            "cp",
            "curl",
            "find",
            "gawk",
            "gcc",
            "g++",
            "gfortran",
            "git",
            "grep",
            "gzip",
        ),
        *(
            "less",
            "ls",
            "make",
            "mv",
            "perl",
            "pip",
            "pip3",
            "python",
            "python2",
            "python3",
            "R",
            "rm",
            "Rscript",
            "rsync",
        ),
        *("sed", "sort", "ssh", "tar", "unzip", "vi", "vim", "wget", "which", "xz", "zip"),
    }
)
"""Commands that scripts expect from the host."""

_CATALOGUES = ("ngc.nvidia.com", "catalog.ngc.nvidia.com", "hub.docker.com", "quay.io", "biocontainers.pro")
"""Sites with a page for each image, whose address ends in the image's name."""

_NVIDIA = re.compile(r"nvcr\.io/(?:nvidia|hpc|nvidia-hpcvisl?)/")


def _tags(recipe: ContainerYaml, text: str, _: Path) -> Iterator[Finding]:
    for tag, digest in recipe.tags:
        line = line_of(text, tag.splitlines()[0] if tag else "tags")
        if not is_tag(tag):
            what = f"{tag[:60]!r} is not a valid tag (perhaps part of an error page)"
            yield fault(line, "does-not-load", FAIL, what, "Remove it.")
        elif digest and not is_digest(digest) and recipe.kind in _REGISTRIES:
            yield fault(
                line, "no-checksum", FAIL, f"{digest[:60]!r} is not a valid digest", "Use sha256: and 64 digits."
            )
        elif tag == "latest" and not digest and recipe.kind in _REGISTRIES:
            what = "the tag latest can mean another image tomorrow"
            yield fault(line, "moving-tag", FAIL, what, "Use a version, with its digest.")
        elif not digest and recipe.kind in _REGISTRIES:
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
        program = alias.command.split()[0] if alias.command.split() else ""
        if "/" in program and not program.startswith("/"):
            what = f"the alias {alias.name} runs {program}, a path that depends on the working directory"
            yield fault(line_of(text, program), "relative-path", FAIL, what, f"Write /{program}.")
        if _looks_misspelt(alias.name, posixpath.basename(program)):
            what = f"the alias {alias.name} runs {posixpath.basename(program)}: one of them is misspelt"
            yield fault(line_of(text, alias.name), "misspelt-alias", WARN, what, "Use the name of the program.")
        if alias.name in HOST_COMMANDS | _USUAL_COMMANDS and posixpath.basename(recipe.source) != alias.name:
            what = f"the alias {alias.name} hides the host's {alias.name} when the module is loaded"
            yield fault(line_of(text, alias.name), "hides-command", WARN, what, "Remove it.")


def _looks_misspelt(name: str, program: str) -> bool:
    """Return whether two names differ as a misspelling does: by one or two letters within a long word."""
    if name == program or not (name.isalpha() and program.isalpha() and min(len(name), len(program)) >= 5):
        return False
    if name.lower() == program.lower() or name in program or program in name:
        return False
    return difflib.SequenceMatcher(None, name, program).ratio() >= 0.83


def _overrides(recipe: ContainerYaml, text: str, path: Path) -> Iterator[Finding]:
    for tag, file in recipe.overrides:
        place = path.parent / file
        line = line_of(text, file)
        try:
            whole = override_recipe(recipe, read_recipe(place), str(place))
        except HpcmodError as err:
            yield fault(line, "does-not-load", FAIL, f"overrides of {tag}: {err.message}", "Correct the file's name.")
            continue
        if len(whole.aliases) > _MOST_ALIASES:
            what = (
                f"{len(whole.aliases)} aliases in {file}: singularity-hpc's Lua module does not load with more than "
                f"{_MOST_ALIASES}"
            )
            yield fault(line, "does-not-load", FAIL, what, "To convert it: hpcmod import shpc")


def _gpus(recipe: ContainerYaml, text: str, _: Path) -> Iterator[Finding]:
    gpu = dict(recipe.features).get("gpu", "").lower() in ("true", "yes", "on")
    if _NVIDIA.match(recipe.source) and not gpu:
        what = "an image of NVIDIA without `features: gpu: true` does not see the GPUs"
        yield fault(line_of(text, recipe.source), "no-gpu-flag", WARN, what, "Add `features: {gpu: true}`.")


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


def _urls(recipe: ContainerYaml, text: str, _: Path) -> Iterator[Finding]:
    host, *page = re.split(r"[/:?#]+", recipe.url.partition("://")[2])
    name, named = _plain(posixpath.basename(recipe.source)), [_plain(part) for part in page if part]
    if host.removeprefix("www.") in _CATALOGUES and len(named) > 1 and name not in named:
        what = f"the url is that of another image than {recipe.source}"
        yield fault(line_of(text, recipe.url), "other-url", WARN, what, "Correct one of them.")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _unknown_keys(recipe: ContainerYaml, text: str, _: Path) -> Iterator[Finding]:
    for key in recipe.unknown:
        what = f"singularity-hpc does not know the key {key[:60]!r}"
        yield fault(line_of(text, f"{key}:"), "unknown-key", WARN, what, "Correct or remove it.")


SHPC_RULES: tuple[Callable[[ContainerYaml, str, Path], Iterator[Finding]], ...] = (
    _tags,
    _aliases,
    _paths,
    _directory,
    _overrides,
    _gpus,
    _urls,
    _unknown_keys,
)
"""Every rule for recipes of singularity-hpc."""
