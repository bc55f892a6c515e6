"""Recipes of singularity-hpc (container.yaml) as one value, with every field's type checked.

Fields: singularity-hpc 0.1.32, docs "Developer Guide" and shpc/main/schemas.py, read 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hpcmod.errors import BadInputError
from hpcmod.model.documents import load_yaml

SOURCES = ("docker", "oras", "gh", "path")
"""Keys that name the source of the image; a recipe has exactly one of them."""

_SCRIPTS = ("docker_scripts", "singularity_scripts", "test")
_READ = (*SOURCES, "url", "description", "maintainer", "latest", "tags", "filter", "aliases", "env", "features")
_NOTHING = ("", "~", "null", "Null", "NULL")  # YAML's spellings of null


@dataclass(frozen=True)
class Alias:
    """A command that the recipe adds to PATH."""

    name: str
    command: str
    """The command to run in the container: a path, or a line of shell."""
    options: tuple[str, ...] = ()
    """Names of the alias's other keys, e.g. singularity_options."""


@dataclass(frozen=True)
class ContainerYaml:
    """A recipe; strings are unchecked input."""

    kind: str
    """One of SOURCES."""
    source: str
    tags: tuple[tuple[str, str], ...]
    """Tags and digests in the order of the recipe, the tag of `latest` first; an empty digest means none."""
    url: str = ""
    description: str = ""
    aliases: tuple[Alias, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    features: tuple[tuple[str, str], ...] = ()
    overrides: tuple[str, ...] = ()
    """Tags that another file describes further."""
    scripts: tuple[str, ...] = ()
    """Names of the keys that contain code of the recipe."""
    unknown: tuple[str, ...] = ()
    """Keys unknown to recipes of 0.1.32."""


def parse_container_yaml(text: str, where: str) -> ContainerYaml:
    """Parse the text of a recipe.

    Raises
    ------
    BadInputError
        If it is not valid YAML, or not a recipe.
    LackingError
        If PyYAML is not installed.
    """
    values = load_yaml(text, where)
    if not isinstance(values, dict) or not any(_text(values, key) for key in SOURCES):
        raise BadInputError(f"{where}: no image source", f"A recipe needs one of the keys {', '.join(SOURCES)}.")
    kinds = [key for key in SOURCES if _text(values, key)]
    if len(kinds) > 1:
        raise BadInputError(f"{where}: several image sources: {', '.join(kinds)}", "Keep only one.")
    tags = {**_texts(values, "latest"), **_texts(values, "tags")}
    return ContainerYaml(
        kind=kinds[0],
        source=_text(values, kinds[0]),
        tags=tuple((tag, "" if digest in _NOTHING else digest) for tag, digest in tags.items()),
        url=_text(values, "url"),
        description=_text(values, "description"),
        aliases=tuple(_aliases(values.get("aliases"))),
        environment=tuple(_texts(values, "env").items()),
        features=tuple(_texts(values, "features").items()),
        overrides=tuple(_texts(values, "overrides")),
        scripts=tuple(key for key in _SCRIPTS if values.get(key)),
        unknown=tuple(str(key) for key in values if key not in (*_READ, *_SCRIPTS, "overrides")),
    )


def _text(values: Mapping[Any, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) and value not in _NOTHING else ""


def _texts(values: Mapping[Any, Any], key: str) -> dict[str, str]:
    """Return a table of strings; other values are replaced by the name of their type, for the error message."""
    table = values.get(key)
    if not isinstance(table, dict):
        return {}
    return {str(name): _shown(value) for name, value in table.items()}


def _shown(value: Any) -> str:
    """Return a string, or the type name of any other value: nested lists may be exponentially large when printed."""
    return value if isinstance(value, str) else f"({type(value).__name__})"


def _aliases(given: Any) -> Iterator[Alias]:
    """Yield the aliases from either form: a table, or a list of tables."""
    if isinstance(given, dict):
        yield from (Alias(str(name), _shown(command)) for name, command in given.items())
    for alias in given if isinstance(given, list) else ():
        if isinstance(alias, dict):
            more = tuple(str(key) for key in alias if key not in ("name", "command"))
            yield Alias(_shown(alias.get("name", "")), _shown(alias.get("command", "")), more)
        else:
            yield Alias(_shown(alias)[:80], "", ())
