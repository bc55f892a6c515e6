"""A site profile: what is true of one machine, parsed from TOML and validated whole."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcmod.errors import BadInputError, HpcmodError
from hpcmod.model.bind import Bind
from hpcmod.model.text import check_plain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

INSTALL_MODES = ("auto", "copy", "link", "central")
"""copy: an own copy; link: a hard link; central: the site's file in place; auto: what the profile says, else copy."""


@dataclass(frozen=True)
class Profile:
    """One TOML file, validated: a name and the values it sets, by dotted key."""

    name: str
    source: str
    """The file the values come from, for messages."""
    extends: str
    """Name of the profile it adds to; empty if none."""
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Site:
    """The facts of one machine that an installation depends on."""

    name: str
    description: str = ""
    detect_paths: tuple[str, ...] = ()
    """A machine where any of these exists is this one."""
    central: tuple[str, ...] = ()
    """Directories with the site's images, the first that has an image wins."""
    install_mode: str = "copy"
    binds: tuple[Bind, ...] = ()
    """Candidates, in order: only those whose source exists on the node are bound."""
    tunables: tuple[tuple[str, str], ...] = ()
    """Environment defaults; a value the user set wins."""
    gpu_visibility: tuple[str, ...] = ()
    """Variables that choose GPUs, Slurm's own first; empty: no GPUs."""
    gpus_per_rank: str = "one"
    node_local: str = "/tmp"  # noqa: S108 - every Linux has it; a profile names a better place
    """Node-local directory for caches."""
    family: str = "ai_container"
    """Lmod family: no two modules of one family are loaded together."""


Check = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text that is not empty")
    return check_plain(value, "the text")


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError("must be a list of texts")
    return tuple(_text(item) for item in value)


def _path(value: Any) -> str:
    if not _text(value).startswith("/"):
        raise ValueError(f"must be an absolute path, found {value!r}")
    return str(value)


def _paths(value: Any) -> tuple[str, ...]:
    return tuple(_path(item) for item in _texts(value))


def _one_of(*words: str) -> Check:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}, found {value!r}")
        return str(value)

    return check


def _variable_names(value: Any) -> tuple[str, ...]:
    for name in _texts(value):
        _check_variable_name(name)
    return _texts(value)


def _check_variable_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{name!r} is not the name of an environment variable")


def _binds(*, required: bool) -> Check:
    def check(value: Any) -> tuple[Bind, ...]:
        return tuple(Bind.parse(item, required=required) for item in _texts(value))

    return check


def _environment(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise ValueError('must be a table of NAME = "value"')
    for name, text in value.items():
        _check_variable_name(name)
        _text(text)
    return tuple(value.items())


SCHEMA: Mapping[str, Check] = {
    "name": _text,
    "description": _text,
    "extends": _text,
    "detect.paths": _paths,
    "images.central": _paths,
    "images.install_mode": _one_of("copy", "link", "central"),
    "binds.required": _binds(required=True),
    "binds.optional": _binds(required=False),
    "environment": _environment,
    "gpu.visibility": _variable_names,
    "gpu.per_rank": _one_of("one", "all"),
    "caches.node_local": _path,
    "module.family": _text,
}
"""Every key a profile may have, and how its value is checked."""


def parse_profile(text: str, source: str) -> Profile:
    """Parse one profile and check all of it.

    Raises
    ------
    BadInputError
        With every fault of the file, each with its key and, for an unknown key, the nearest valid one.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise BadInputError(f"site profile {source} is not valid TOML: {err}", "Mend that line.") from err
    values: dict[str, Any] = {}
    faults = [fault for key, value in _flatten(tree) for fault in _check_key(key, value, values)]
    if "name" not in tree:
        faults.append("name: is missing")
    if faults:
        listed = "\n".join(f"  {fault}" for fault in faults)
        raise BadInputError(
            f"site profile {source}:\n{listed}", "Mend these keys; `hpcmod site show generic` is a model."
        )
    return Profile(values["name"], source, values.get("extends", ""), values)


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in SCHEMA:
            flat.extend(_flatten(value, f"{key}."))
        else:
            flat.append((key, value))
    return flat


def _check_key(key: str, value: Any, values: dict[str, Any]) -> list[str]:
    """Put the checked value into values; return the faults."""
    if key not in SCHEMA:
        near = difflib.get_close_matches(key, SCHEMA, n=1)
        return [f"{key}: unknown key" + (f", did you mean {near[0]}?" if near else "")]
    try:
        values[key] = SCHEMA[key](value)
    except (ValueError, HpcmodError) as err:
        return [f"{key}: {err}"]
    return []


def make_site(profiles: Sequence[Profile]) -> Site:
    """Make a site from profiles, the most general first; a later one's values replace, its environment adds."""
    merged: dict[str, Any] = {}
    environment: dict[str, str] = {}
    for profile in profiles:
        merged.update(profile.values)
        environment.update(profile.values.get("environment", ()))
    chosen = {field: merged[key] for key, field in _FIELDS.items() if key in merged}
    binds = (*merged.get("binds.required", ()), *merged.get("binds.optional", ()))
    return Site(binds=binds, tunables=tuple(environment.items()), **chosen)


_FIELDS = {
    "name": "name",
    "description": "description",
    "detect.paths": "detect_paths",
    "images.central": "central",
    "images.install_mode": "install_mode",
    "gpu.visibility": "gpu_visibility",
    "gpu.per_rank": "gpus_per_rank",
    "caches.node_local": "node_local",
    "module.family": "family",
}
