"""Environment definition files (EDF) of CSCS: parse one, find those that it inherits from, and merge them.

Sources, read 2026-11: https://docs.cscs.ch/software/container-engine/edf/ (keys, inheritance),
https://docs.cscs.ch/software/container-engine/run/ (search path), and for `devices`
https://github.com/eth-cscs/cscs-docs/blob/main/docs/software/container-engine/sarus-suite/user-guide.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.documents import load_toml
from hpcmod.core.values.strict_json import JsonObject
from hpcmod.modules import read_recipe

LEVELS = 10
"""Levels of files that inherit from one another, as documented."""

_MOST_FILES = 100  # files that one file inherits from: each level may name several
_DEEPEST = 20  # levels of an annotation's name
_KEYS = ("annotations", "base_environment", "devices", "entrypoint", "env", "image", "mounts", "workdir", "writable")
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
        listed = environ.get("EDF_PATH") or (f"{environ['HOME']}/.edf" if environ.get("HOME") else "")
        return cls(tuple(Path(path) for path in listed.split(":") if path.startswith("/")), working)

    def find(self, name: str, beside: Path) -> tuple[Path, str]:
        """Return the file that a name or path means, and a note if it is only found next to the file that names it.

        Raises BadInputError if there is none.
        """
        if "\0" in name:
            raise BadInputError("base_environment contains a NUL", "")
        if name.startswith((".", "/")) or name.endswith(".toml"):
            places, own = [self.working / name], beside.parent / name
        else:
            places, own = [path / f"{name}.toml" for path in self.directories], beside.parent / f"{name}.toml"
        known = next(filter(is_file, places), None)
        if known:
            return known, ""
        if is_file(own):
            return own, f"base_environment {name} was found next to the file that names it, not in the search path"
        searched = ", ".join(dict.fromkeys(str(path.parent) for path in (*places, own)))
        raise BadInputError(f"base_environment {name!r} is not in {searched}; set EDF_PATH", "")


def literal_text(text: str) -> str:
    """Return the text of a value on every machine: `$` for `$$`.

    Raises BadInputError if it depends on a variable.
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
    """Parse one file.

    Raises BadInputError if it is not TOML, or a key has a value of the wrong type.
    """
    values = load_toml(text, where)
    base = values.get("base_environment")
    tree = JsonObject({**values, "base_environment": [base] if isinstance(base, str) else base}, where)
    return EnvironmentFile(
        bases=tree.texts("base_environment"),
        image=tree.text("image"),
        workdir=tree.text("workdir"),
        entrypoint=tree.flag("entrypoint") if "entrypoint" in values else None,
        writable=tree.flag("writable") if "writable" in values else None,
        mounts=tree.texts("mounts"),
        devices=tree.texts("devices"),
        env=tree.table("env"),
        annotations=tuple(_flatten(tree.object("annotations"))),
        unknown=tuple(key for key in values if key not in _KEYS),
    )


def _flatten(table: JsonObject, above: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield nested tables as pairs of full name and value."""
    if depth > _DEEPEST:
        raise BadInputError(f"{table.where}: the annotation {above[:80]} is nested too deeply", "")
    for key, value in table.values.items():
        name = f"{above}.{key}" if above else key
        if isinstance(value, dict):
            yield from _flatten(JsonObject(value, table.where), name, depth + 1)
        else:
            yield name, str(value).lower() if isinstance(value, bool) else table.text(key)


def read_edf(text: str, path: Path, search: EdfPath) -> EnvironmentFile:
    """Parse a file, and merge it into those that it inherits from.

    Raises HpcmodError if one cannot be read, parsed or found, or there are too many.
    """
    files = count(1)

    def merged(top: EnvironmentFile, path: Path, above: tuple[Path, ...]) -> EnvironmentFile:
        """Return a file merged into its bases, which are evaluated in order; `above` inherit from it."""
        if len(above) > LEVELS:
            raise BadInputError(f"base_environment has more than {LEVELS} levels", "")
        below = EnvironmentFile()
        for name in top.bases:
            file, note = search.find(literal_text(name), path)
            if next(files) > _MOST_FILES:
                raise BadInputError(f"base_environment leads to more than {_MOST_FILES} files", "")
            base = merged(parse_edf(read_recipe(file), str(file)), file, (*above, path))
            below = merge(below, replace(base, notes=(*base.notes, note) if note else base.notes))
        return merge(below, top)

    return merged(parse_edf(text, str(path)), path, ())


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
