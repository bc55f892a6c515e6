"""Image recipes as data: TOML parsed and validated."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.values.documents import load_toml
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.shape import Shape, list_shape, object_shape, table_shape, text_shape
from hpcmod.core.values.strict_json import JsonObject, Texts

CHOICES = {"mpi": ("ompi", "mpich", "none"), "ofi": ("builtin", "swap", "none")}
"""Valid values of --mpi and --ofi; a recipe lists those it supports, its default first."""

CONDITIONS = (*CHOICES, "with", "host_libs")
"""Conditions of a step: the choices, values of --with, and whether --host-libs is given (yes, no)."""

GPUS = ("none", "cuda", "rocm")
ARCHITECTURES = ("amd64", "arm64")

_MOST = 1000  # entries of a list
_SUMMARY = re.compile(r"[^\x00-\x1f\x7f]+")
_VALUE = re.compile(r"[A-Za-z0-9._+:/=,@~<>!\[\] -]*")
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_PLACEHOLDER = re.compile(r"\{[a-z][a-z0-9_-]*\}")
_VARIABLE = re.compile("PATH|LD_LIBRARY_PATH")

_TEXT: Shape = {"type": "string"}
_VALUES = table_shape(text_shape(rf"({_PLACEHOLDER.pattern}|{_VALUE.pattern[:-1]})*"))
_WHEN = object_shape({key: {"anyOf": [_TEXT, list_shape(_TEXT)]} for key in CONDITIONS})
_STEP = {"component": text_shape(_NAME.pattern), "when": _WHEN, "sources": _VALUES, "environment": _VALUES}
_SEARCH = {"variable": text_shape(_VARIABLE.pattern), "directories": list_shape(_TEXT), "when": _WHEN}

KEYS: Mapping[str, Shape] = {
    "summary": text_shape(_SUMMARY.pattern),
    "gpu": {"enum": GPUS},
    "base": object_shape(dict(zip(ARCHITECTURES, [_TEXT, _TEXT]))),
    "choices": object_shape({name: list_shape({"enum": known}) for name, known in CHOICES.items()}, *CHOICES),
    "with": list_shape(_TEXT),
    "set": _VALUES,
    "needs": _VALUES,
    "environment": _VALUES,
    "search": list_shape(object_shape(_SEARCH, "variable")),
    "files": table_shape(_TEXT),
    "steps": list_shape(object_shape(_STEP, "component"), least=1),
}
"""The keys of a recipe, and the shape of the value of each."""

REQUIRED = ("summary", "base", "choices", "steps")


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

    Raises BadInputError, which names the key of the first mistake.
    """
    try:
        return _make_recipe(JsonObject(load_toml(text, f"recipe {name}"), f"recipe {name}"), name)
    except BadInputError as err:
        raise BadInputError(err.message, err.cure or "Fix this key; see docs/reference/recipes.md.") from err


def _make_recipe(tree: JsonObject, name: str) -> Recipe:
    _check_keys(tree, KEYS)
    recipe = Recipe(
        name=name,
        summary=_text(tree, "summary", _SUMMARY, "a string"),
        gpu=tree.text("gpu") or "none",
        bases=tree.table("base"),
        choices=_choices(tree.object("choices")),
        extras=tree.texts("with"),
        settings=_values(tree, "set"),
        needs=_values(tree, "needs"),
        environment=_values(tree, "environment"),
        search_paths=tuple(map(_make_search_path, _entries(tree, "search"))),
        steps=tuple(map(_make_step, _entries(tree, "steps"))),
        files=tree.table("files"),
    )
    if recipe.gpu not in GPUS:
        raise tree.bad("gpu", f"one of {', '.join(GPUS)}", recipe.gpu)
    if not recipe.bases or not dict(recipe.bases).keys() <= set(ARCHITECTURES):
        raise tree.bad("base", f"an image reference for each of {', '.join(ARCHITECTURES)}", dict(recipe.bases))
    for architecture, base in recipe.bases:
        try:
            parse_base(fill_in(base, dict(recipe.settings)))
        except HpcmodError as err:
            raise BadInputError(f"{tree.where}: base.{architecture}: {err.message}", err.cure) from err
    for path, _ in recipe.files:
        if path.startswith("/") or not path.isprintable() or {"", ".", ".."} & set(path.split("/")):
            raise BadInputError(f"{tree.where}: files: {path!r} is not a relative path without . and ..")
    if not recipe.steps:
        raise BadInputError(f"{tree.where}: steps: expected at least one [[steps]]")
    return recipe


def _check_keys(table: JsonObject, known: Collection[str]) -> None:
    for key in table.values:
        check_among(key, known, f"{table.where}: {key}: unknown key")


def _entries(tree: JsonObject, key: str) -> Iterator[JsonObject]:
    """Yield the tables of a list; their location has a number."""
    for number, entry in enumerate(tree.objects(key, _MOST), 1):
        yield JsonObject(entry.values, f"{entry.where}, number {number}")


def _text(table: JsonObject, key: str, pattern: re.Pattern[str], expected: str) -> str:
    value = table.text(key)
    if not pattern.fullmatch(value):
        raise table.bad(key, expected, value)
    return value


def _values(table: JsonObject, key: str) -> Texts:
    """Return a table of strings that a script, a Dockerfile and a definition file may contain."""
    texts = table.table(key)
    for name, value in texts:
        check_value(_PLACEHOLDER.sub("", value), f"{table.where}: {key}.{name}:")
    return texts


def _choices(table: JsonObject) -> tuple[tuple[str, tuple[str, ...]], ...]:
    _check_keys(table, CHOICES)
    for name, known in CHOICES.items():
        values = table.texts(name)
        if not values or not set(values) <= set(known):
            raise table.bad(name, f"a list of {', '.join(known)}, the default first", list(values))
    return tuple((name, table.texts(name)) for name in table.values)


def _when(entry: JsonObject) -> tuple[tuple[str, tuple[str, ...]], ...]:
    table = entry.object("when")
    _check_keys(table, CONDITIONS)
    return tuple((key, (value,) if isinstance(value, str) else table.texts(key)) for key, value in table.values.items())


def _make_search_path(entry: JsonObject) -> SearchPath:
    _check_keys(entry, _SEARCH)
    variable = _text(entry, "variable", _VARIABLE, "PATH or LD_LIBRARY_PATH")
    return SearchPath(variable, entry.texts("directories"), _when(entry))


def _make_step(entry: JsonObject) -> RecipeStep:
    _check_keys(entry, _STEP)
    return RecipeStep(
        component=_text(entry, "component", _NAME, "the name of a component"),
        when=_when(entry),
        sources=_values(entry, "sources"),
        environment=_values(entry, "environment"),
    )


def parse_addresses(text: str) -> dict[str, str]:
    """Parse components/sources.toml: address of each source by name."""
    return {name: table["url"] for name, table in load_toml(text, "sources.toml").items()}


def check_among(name: str, known: Collection[str], fault: str, cure: str = "") -> None:
    """Check that a name is known.

    Raises BadInputError with the fault, the nearest known name if one is close, and the cure.
    """
    if name not in known:
        near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
        raise BadInputError(fault + (f", did you mean {near[0]}?" if near else ""), cure)


def parse_base(text: str) -> ImageReference:
    """Parse the reference of a base image that engines support.

    Raises BadInputError if it is not supported.
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

    Raises BadInputError if it contains a character that is special in one of them.
    """
    if not _VALUE.fullmatch(value):
        raise BadInputError(
            f"{what} {value!r} contains characters that are special in a Dockerfile or a definition file",
            "Letters, digits, blanks and . _ + : / = , @ ~ < > ! [ ] - are allowed.",
        )
    return value


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Substitute each `{KEY}` in a text by its value.

    Raises BadInputError if a key is unknown.
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
