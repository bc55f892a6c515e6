"""Recipes of singularity-hpc (container.yaml) as one value, with every field's type checked.

Fields: singularity-hpc 0.1.32, docs "Developer Guide" and shpc/main/schemas.py, read 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.documents import load_yaml

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
    options: tuple[tuple[str, str], ...] = ()
    """The alias's other keys, e.g. singularity_options, with their values."""


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
    overrides: tuple[tuple[str, str], ...] = ()
    """Tags that another file describes further, and the file's path beside the recipe."""
    scripts: tuple[tuple[str, str], ...] = ()
    """Keys that contain code of the recipe, and their text."""
    filters: tuple[str, ...] = ()
    """Patterns of the tags that an update of the recipe considers."""
    maintainer: str = ""
    unknown: tuple[str, ...] = ()
    """Keys unknown to recipes of 0.1.32."""
    values: Mapping[Any, Any] = field(default_factory=dict)
    """The recipe as it is written."""


def parse_container_yaml(text: str, where: str) -> ContainerYaml:
    """Parse the text of a recipe.

    Raises BadInputError if it is not valid YAML, or not a recipe; LackingError if PyYAML is not installed.
    """
    return _parse(load_yaml(text, where), where)


def _parse(values: Any, where: str) -> ContainerYaml:
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
        overrides=tuple(_texts(values, "overrides").items()),
        scripts=tuple((key, _written(values[key])) for key in _SCRIPTS if values.get(key)),
        filters=tuple(map(_shown, found)) if isinstance(found := values.get("filter"), list) else (),
        maintainer=_text(values, "maintainer"),
        unknown=tuple(str(key) for key in values if key not in (*_READ, *_SCRIPTS, "overrides")),
        values=values,
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


def _written(value: Any) -> str:
    """Return a script, or the names and files of a table of scripts."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_shown(one)}" for name, one in value.items())
    return _shown(value)


def override_recipe(recipe: ContainerYaml, text: str, where: str) -> ContainerYaml:
    """Return a recipe with the keys of an override file in place of its own, as singularity-hpc uses them for one tag.

    Raises BadInputError if the file is not valid YAML, or not a table; LackingError if PyYAML is not installed.
    """
    values = load_yaml(text, where)
    if not isinstance(values, dict):
        raise BadInputError(f"{where}: not a table of keys", "An override file has the keys of a recipe.")
    fixed = (*SOURCES, "tags", "latest", "filter", "overrides")
    changed = {key: value for key, value in values.items() if key not in fixed}
    return _parse({**recipe.values, **changed}, where)


def _aliases(given: Any) -> Iterator[Alias]:
    """Yield the aliases from either form: a table, or a list of tables."""
    if isinstance(given, dict):
        yield from (Alias(str(name), _shown(command)) for name, command in given.items())
    for alias in given if isinstance(given, list) else ():
        if isinstance(alias, dict):
            more = tuple((str(key), _shown(value)) for key, value in alias.items() if key not in ("name", "command"))
            yield Alias(_shown(alias.get("name", "")), _shown(alias.get("command", "")), more)
        else:
            yield Alias(_shown(alias)[:80], "", ())
