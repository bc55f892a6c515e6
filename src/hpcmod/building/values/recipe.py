"""Image recipes as data: TOML parsed and validated."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.values.documents import load_toml
from hpcmod.core.values.reference import ImageReference

CHOICES = {"mpi": ("ompi", "mpich", "none"), "ofi": ("builtin", "swap", "none")}
"""Valid values of --mpi and --ofi; a recipe lists those it supports, its default first."""

CONDITIONS = (*CHOICES, "with", "host_libs")
"""Conditions of a step: the choices, values of --with, and whether --host-libs is given (yes, no)."""

GPUS = ("none", "cuda", "rocm")
ARCHITECTURES = ("amd64", "arm64")

_KEYS = ("summary", "gpu", "base", "choices", "with", "set", "needs", "environment", "search", "files", "steps")
_STEP_KEYS = ("component", "when", "sources", "environment")
_VALUE = re.compile(r"[A-Za-z0-9._+:/=,@~<>!\[\] -]*")
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_PLACEHOLDER = re.compile(r"\{[a-z][a-z0-9_-]*\}")


@dataclass(frozen=True)
class RecipeStep:
    """One component of a recipe, and when it is included."""

    component: str
    when: tuple[tuple[str, tuple[str, ...]], ...]
    """For each of CONDITIONS the matching values; all must hold."""
    sources: tuple[tuple[str, str], ...]
    """Versions of its sources by name; `{KEY}` refers to a KEY of `set`."""
    environment: tuple[tuple[str, str], ...]
    """Variables of its script; `{KEY}` refers to a KEY of `set`, or to a choice."""


@dataclass(frozen=True)
class SearchPath:
    """Directories to prepend to a variable, and when."""

    variable: str
    """PATH or LD_LIBRARY_PATH."""
    directories: tuple[str, ...]
    when: tuple[tuple[str, tuple[str, ...]], ...]
    """As in RecipeStep."""


@dataclass(frozen=True)
class Recipe:
    """A recipe, as written in its file."""

    name: str
    summary: str
    gpu: str
    """none, cuda or rocm."""
    bases: tuple[tuple[str, str], ...]
    """Base image reference by architecture; `{KEY}` refers to a KEY of `set`."""
    choices: tuple[tuple[str, tuple[str, ...]], ...]
    """Options (mpi, ofi) and their values, the default first."""
    extras: tuple[str, ...]
    """Values of --with."""
    settings: tuple[tuple[str, str], ...]
    """Settings for --set, with their defaults."""
    needs: tuple[tuple[str, str], ...]
    """Settings without a default, with their meaning: package indexes for pip; --wheel-dir replaces them."""
    environment: tuple[tuple[str, str], ...]
    """Set in the image; tunables belong in the module instead."""
    search_paths: tuple[SearchPath, ...]
    """Prepended in the image."""
    steps: tuple[RecipeStep, ...]
    files: tuple[tuple[str, str], ...] = ()
    """Local files and directories for the steps, by their names below BUILD_ROOT/files; never in the image."""


def parse_recipe(text: str, name: str) -> Recipe:
    """Parse and validate a recipe.

    Raises
    ------
    BadInputError
        Lists every error in the file.
    """
    tree = load_toml(text, f"recipe {name}")
    faults = list(_faults(tree))
    if faults:
        listed = "\n".join(f"  {fault}" for fault in faults)
        raise BadInputError(f"recipe {name}:\n{listed}", "Fix these keys; see docs/reference/recipes.md.")
    return Recipe(
        name=name,
        summary=tree["summary"],
        gpu=tree.get("gpu", "none"),
        bases=tuple(tree["base"].items()),
        choices=tuple((key, tuple(values)) for key, values in tree.get("choices", {}).items()),
        extras=tuple(tree.get("with", ())),
        settings=tuple(tree.get("set", {}).items()),
        needs=tuple(tree.get("needs", {}).items()),
        environment=tuple(tree.get("environment", {}).items()),
        search_paths=tuple(
            SearchPath(entry["variable"], tuple(entry["directories"]), _when(entry)) for entry in tree.get("search", ())
        ),
        steps=tuple(_make_step(step) for step in tree["steps"]),
        files=tuple(tree.get("files", {}).items()),
    )


def parse_addresses(text: str) -> dict[str, str]:
    """Parse components/sources.toml: address of each source by name."""
    return {name: table["url"] for name, table in load_toml(text, "sources.toml").items()}


def choose_recipe(name: str, recipes: Iterable[str]) -> str:
    """Return the name if there is such a recipe.

    Raises
    ------
    BadInputError
        If there is none; suggests the nearest name.
    """
    known = sorted(recipes)
    if name not in known:
        raise BadInputError(f"unknown recipe {name!r}{nearest(name, known)}", f"Recipes: {', '.join(known)}.")
    return name


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean X?` for the nearest known name; empty if none is close."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f", did you mean {near[0]}?" if near else ""


def parse_base(text: str) -> ImageReference:
    """Parse the reference of a base image that engines support.

    Raises
    ------
    BadInputError
        If it is not supported.
    """
    reference = ImageReference.parse(text)
    if reference.kind not in ("docker", "oci", "oci-archive", "docker-archive", "path"):
        raise BadInputError(
            f"base {reference.canonical}: not supported as a base image",
            "Use docker://..., oci:DIRECTORY, oci-archive:FILE, docker-archive:FILE, or the path of a SIF.",
        )
    if " " in check_value(reference.canonical, "base"):
        raise BadInputError(f"base {reference.canonical!r} contains a space", "Rename it, or create a link to it.")
    return reference


def check_value(value: str, what: str) -> str:
    """Return the value if it is safe in a Dockerfile, a definition file and a script.

    Raises
    ------
    BadInputError
        If it contains a character that is special in one of them.
    """
    if not _VALUE.fullmatch(value):
        raise BadInputError(
            f"{what} {value!r} contains characters that are special in a Dockerfile or a definition file",
            "Letters, digits, blanks and . _ + : / = , @ ~ < > ! [ ] - are allowed.",
        )
    return value


def _when(table: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    conditions = table.get("when", {}).items()
    return tuple((key, (value,) if isinstance(value, str) else tuple(value)) for key, value in conditions)


def _make_step(step: Mapping[str, Any]) -> RecipeStep:
    return RecipeStep(
        component=step["component"],
        when=_when(step),
        sources=tuple(step.get("sources", {}).items()),
        environment=tuple(step.get("environment", {}).items()),
    )


def _faults(tree: Mapping[str, Any]) -> Iterator[str]:
    for key in tree:
        if key not in _KEYS:
            yield f"{key}: unknown key{nearest(key, _KEYS)}"
    if not _is_text(tree.get("summary")):
        yield "summary: expected a string"
    if tree.get("gpu", "none") not in GPUS:
        yield f"gpu: expected one of {', '.join(GPUS)}"
    for key in ("set", "needs", "environment"):
        yield from _faults_of_texts(key, tree.get(key, {}))
    yield from _faults_of_files(tree.get("files", {}))
    yield from _faults_of_choices(tree)
    yield from _faults_of_search(tree)
    yield from _faults_of_base(tree)
    yield from _faults_of_steps(tree)


def _faults_of_texts(key: str, table: Any) -> Iterator[str]:
    if not _is_table_of_texts(table):
        yield f"{key}: expected a table of strings"
        return
    for name, value in table.items():
        try:
            check_value(_PLACEHOLDER.sub("", value), f"{key}.{name}:")
        except HpcmodError as err:
            yield err.message


def _faults_of_files(files: Any) -> Iterator[str]:
    if not _is_table_of_texts(files):
        yield "files: expected a table of strings"
        return
    for name in files:
        if not _is_text(name) or name.startswith("/") or {"", ".", ".."} & set(name.split("/")):
            yield f"files: {name!r} is not a relative path without . and .."


def _faults_of_choices(tree: Mapping[str, Any]) -> Iterator[str]:
    choices = tree.get("choices", {})
    for name, known in CHOICES.items():
        values = choices.get(name) if isinstance(choices, dict) else None
        if not _is_list_of_texts(values) or not values or not set(values) <= set(known):
            yield f"choices.{name}: expected a list of {', '.join(known)}, the default first"
    for name in choices if isinstance(choices, dict) else ():
        if name not in CHOICES:
            yield f"choices.{name}: unknown key{nearest(name, CHOICES)}"
    if not _is_list_of_texts(tree.get("with", [])):
        yield "with: expected a list of names"


def _faults_of_search(tree: Mapping[str, Any]) -> Iterator[str]:
    search = tree.get("search", [])
    if not _is_list_of_tables(search):
        yield "search: expected tables, [[search]]"
        return
    for number, entry in enumerate(search, 1):
        if entry.get("variable") not in ("PATH", "LD_LIBRARY_PATH") or not _is_list_of_texts(entry.get("directories")):
            yield f"search, number {number}: expected variable (PATH or LD_LIBRARY_PATH) and directories (a list)"
        yield from _faults_of_when(f"search, number {number}", entry.get("when", {}))


def _faults_of_base(tree: Mapping[str, Any]) -> Iterator[str]:
    base = tree.get("base")
    if not isinstance(base, dict) or not base or not set(base) <= set(ARCHITECTURES):
        yield f"base: expected an image reference for each of {', '.join(ARCHITECTURES)}"
        return
    settings = tree.get("set", {})
    for architecture, text in base.items():
        if not isinstance(text, str):
            yield f"base.{architecture}: expected an image reference"
            continue
        try:
            parse_base(fill_in(text, settings if _is_table_of_texts(settings) else {}))
        except HpcmodError as err:
            yield f"base.{architecture}: {err.message}"


def _faults_of_steps(tree: Mapping[str, Any]) -> Iterator[str]:
    steps = tree.get("steps")
    if not _is_list_of_tables(steps) or not steps:
        yield "steps: expected at least one [[steps]]"
        return
    for number, step in enumerate(steps, 1):
        for key in step:
            if key not in _STEP_KEYS:
                yield f"steps, number {number}: unknown key {key}{nearest(key, _STEP_KEYS)}"
        if not _NAME.fullmatch(str(step.get("component", ""))):
            yield f"steps, number {number}: expected the name of a component"
        yield from _faults_of_when(f"steps, number {number}", step.get("when", {}))
        yield from _faults_of_texts(f"steps, number {number}: sources", step.get("sources", {}))
        yield from _faults_of_texts(f"steps, number {number}: environment", step.get("environment", {}))


def _faults_of_when(place: str, when: Any) -> Iterator[str]:
    if not isinstance(when, dict):
        yield f"{place}: when: expected a table"
        return
    for key, value in when.items():
        if key not in CONDITIONS:
            yield f"{place}: when.{key}: unknown key{nearest(key, CONDITIONS)}"
        if not isinstance(value, str) and not _is_list_of_texts(value):
            yield f"{place}: when.{key}: expected a string or a list of strings"


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Substitute each `{KEY}` in a text by its value.

    Raises
    ------
    BadInputError
        If a key is unknown.
    """
    cure = "Use a key of [set], mpi, ofi or arch."
    if set("{}") & set(_PLACEHOLDER.sub("", text)):
        raise BadInputError(f"{text!r}: braces may only contain a KEY, as in {{KEY}}", cure)
    for key in placeholders(text):
        if key not in values:
            raise BadInputError(f"{text!r}: unknown key {key!r}", cure)
    return _PLACEHOLDER.sub(lambda match: values[match[0][1:-1]], text)


def placeholders(text: str) -> set[str]:
    """Return each KEY that occurs in a text as `{KEY}`."""
    return {placeholder[1:-1] for placeholder in _PLACEHOLDER.findall(text)}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value) and not re.search(r"[\x00-\x1f\x7f]", value)


def _is_table_of_texts(value: object) -> bool:
    return isinstance(value, dict) and all(_is_text(item) for item in value.values())


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(_is_text(item) for item in value)


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)
