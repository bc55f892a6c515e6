"""Environment definition files (EDF) of CSCS: parse one, find those that it inherits from, and merge them.

Sources, read 2026-11: https://docs.cscs.ch/software/container-engine/edf/ (keys, inheritance),
https://docs.cscs.ch/software/container-engine/run/ (search path), and for `devices`
https://github.com/eth-cscs/cscs-docs/blob/main/docs/software/container-engine/sarus-suite/user-guide.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.documents import load_toml
from hpcmod.modules.easyconfigs.files import read_recipe

LEVELS = 10
"""Levels of files that inherit from one another, as documented."""

_MOST_FILES = 100  # files that one file inherits from: each level may name several
_DEEPEST = 20  # levels of an annotation's name
_KEYS = ("annotations", "base_environment", "devices", "entrypoint", "env", "image", "mounts", "workdir", "writable")
_KINDS = {str: "a string", bool: "true or false"}
_DOLLARS = re.compile(r"\$\$|(?P<variable>\$\{[^}]*\}?)|\$[A-Za-z_]\w*")


@dataclass(frozen=True)
class EnvironmentFile:
    """One file, or several merged; strings are unchecked input with their variables."""

    bases: tuple[str, ...] = ()
    """Files to inherit from, in order."""
    image: str = ""
    workdir: str = ""
    entrypoint: bool | None = None
    writable: bool | None = None
    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    """By their full names, e.g. com.hooks.ssh.enabled."""
    unknown: tuple[str, ...] = ()
    """Keys that are not documented."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EdfPath:
    """Where files are searched that another one inherits from."""

    directories: tuple[Path, ...]
    """For names: those of EDF_PATH, or ~/.edf."""
    working: Path
    """For relative paths: the directory in which the user starts jobs."""

    @classmethod
    def of(cls, environ: Mapping[str, str], working: Path) -> EdfPath:
        """Return the search path of a user; EDF_PATH lists absolute paths."""
        listed = environ.get("EDF_PATH", "")
        home = environ.get("HOME", "")
        directories = [one for one in listed.split(":") if one.startswith("/")]
        return cls(tuple(map(Path, directories if listed else [f"{home}/.edf"] if home else [])), working)

    def find(self, name: str, beside: Path) -> tuple[Path, str]:
        """Return the file that a name or path means, and a note if it is only found next to the file that names it.

        Raises
        ------
        BadInputError
            If there is none.
        """
        if "\0" in name:
            raise BadInputError("base_environment contains a NUL", "")
        if name.startswith((".", "/")) or name.endswith(".toml"):
            places, own = [self.working / name], beside.parent / name
        else:
            places, own = [one / f"{name}.toml" for one in self.directories], beside.parent / f"{name}.toml"
        found = next(filter(is_file, places), None)
        if found:
            return found, ""
        if is_file(own):
            return own, f"base_environment {name} was found next to the file that names it, not in the search path"
        searched = ", ".join(dict.fromkeys(str(one.parent) for one in (*places, own)))
        raise BadInputError(f"base_environment {name!r} is not in {searched}; set EDF_PATH", "")


def literal_text(text: str) -> str:
    """Return the text of a value on every machine: `$` for `$$`.

    Raises
    ------
    BadInputError
        If it depends on a variable.
    """

    def literal(match: re.Match[str]) -> str:
        if match["variable"]:
            raise BadInputError(f"depends on {match[0]}", "")
        if match[0] != "$$":
            raise BadInputError(f"{match[0]} is not a variable in this format: write ${{{match[0][1:]}}}", "")
        return "$"

    return _DOLLARS.sub(literal, text)


def is_file(path: Path) -> bool:
    """Return whether a path that a foreign file names is an existing file that can be looked up."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long or has a NUL, or a directory that the user may not search
        return False


def parse_edf(text: str, where: str) -> EnvironmentFile:
    """Parse one file; report all errors together.

    Raises
    ------
    BadInputError
        If it is not TOML, or a key has a value of the wrong type.
    """
    tree = load_toml(text, where)
    faults = list(_faults(tree))
    annotations, too_deep = _flatten(tree.get("annotations"))
    if faults or too_deep:
        raise BadInputError(f"{where}: {'; '.join([*faults, *too_deep])}", "")
    base = tree.get("base_environment", [])
    return EnvironmentFile(
        bases=tuple([base] if isinstance(base, str) else base),
        image=tree.get("image", ""),
        workdir=tree.get("workdir", ""),
        entrypoint=tree.get("entrypoint"),
        writable=tree.get("writable"),
        mounts=tuple(tree.get("mounts", ())),
        devices=tuple(tree.get("devices", ())),
        env=tuple(tree.get("env", {}).items()),
        annotations=tuple(annotations),
        unknown=tuple(key for key in tree if key not in _KEYS),
    )


def _faults(tree: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys whose values have the wrong type."""
    for key, kind in (("image", str), ("workdir", str), ("entrypoint", bool), ("writable", bool)):
        if key in tree and not isinstance(tree[key], kind):
            yield f"{key} is not {_KINDS[kind]}"
    for key in ("base_environment", "mounts", "devices"):
        value = tree.get(key, [])
        if key == "base_environment" and isinstance(value, str):
            continue
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            yield f"{key} is not a list of strings"
    for key in ("env", "annotations"):
        if not isinstance(tree.get(key, {}), dict):
            yield f"{key} is not a table"
    env = tree.get("env")
    for name, value in env.items() if isinstance(env, dict) else ():
        if not isinstance(value, str):
            yield f"env.{name} is not a string"


def _flatten(table: object) -> tuple[list[tuple[str, str]], list[str]]:
    """Return nested tables as pairs of full name and value, and what is wrong with them."""
    found: list[tuple[str, str]] = []
    faults: list[str] = []
    waiting: list[tuple[str, object, int]] = [("", table if isinstance(table, dict) else {}, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        if depth > _DEEPEST:
            return [], [f"the annotation {name[:80]} is nested too deeply"]
        if isinstance(value, dict):
            parts = [(f"{name}.{key}" if name else key, one, depth + 1) for key, one in value.items()]
            waiting += reversed(parts)
        elif isinstance(value, bool):
            found.append((name, str(value).lower()))
        elif isinstance(value, str):
            found.append((name, value))
        else:
            faults.append(f"the annotation {name} is not a string")
    return found, faults


def read_edf(text: str, path: Path, search: EdfPath) -> EnvironmentFile:
    """Parse a file, and merge it into those that it inherits from.

    Raises
    ------
    HpcmodError
        If one cannot be read, parsed or found, or there are too many.
    """
    return _Reader(search).merged(parse_edf(text, str(path)), path, ())


@dataclass
class _Reader:
    search: EdfPath
    count: int = 0
    """Files read so far."""

    def merged(self, top: EnvironmentFile, path: Path, above: tuple[Path, ...]) -> EnvironmentFile:
        """Return a file merged into its bases, which are evaluated in order; `above` inherit from it."""
        if len(above) > LEVELS:
            raise BadInputError(f"base_environment has more than {LEVELS} levels", "")
        below = EnvironmentFile()
        for name in top.bases:
            found, note = self.search.find(literal_text(name), path)
            self.count += 1
            if self.count > _MOST_FILES:
                raise BadInputError(f"base_environment leads to more than {_MOST_FILES} files", "")
            base = self.merged(parse_edf(read_recipe(found), str(found)), found, (*above, path))
            below = merge(below, replace(base, notes=(*base.notes, *([note] if note else []))))
        return merge(below, top)


def merge(below: EnvironmentFile, over: EnvironmentFile) -> EnvironmentFile:
    """Merge a file into one that it inherits from: lists are appended, tables extended, other values replaced."""
    return EnvironmentFile(
        image=over.image or below.image,
        workdir=over.workdir or below.workdir,
        entrypoint=below.entrypoint if over.entrypoint is None else over.entrypoint,
        writable=below.writable if over.writable is None else over.writable,
        mounts=(*below.mounts, *over.mounts),
        devices=tuple(dict.fromkeys((*below.devices, *over.devices))),
        env=tuple({**dict(below.env), **dict(over.env)}.items()),
        annotations=tuple({**dict(below.annotations), **dict(over.annotations)}.items()),
        unknown=tuple(dict.fromkeys((*below.unknown, *over.unknown))),
        notes=(*below.notes, *over.notes),
    )
