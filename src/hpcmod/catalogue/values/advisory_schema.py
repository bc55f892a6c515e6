"""The schema of advisory files: every key, how it is checked, and the parser that reports all errors of a file."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hpcmod.catalogue.values.advisory import MOST_STARS, VERSION, Advisory, HostFact, seconds_of
from hpcmod.catalogue.values.package_range import PackageRange, parse_range
from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.values.documents import load_toml
from hpcmod.core.values.shape import (
    TEXT,
    Check,
    Shape,
    list_shape,
    object_shape,
    shape_of,
    shaped,
    table_shape,
    text_shape,
)
from hpcmod.machine.values import checks as check
from hpcmod.machine.values.condition import Bound

_BOUND = re.compile(r"(>=|<=|==|>|<) *(\d{1,9}(?:\.\d{1,9})*)")
_TABLES = ("match", "cure")


def parse_advisory(text: str, source: str, name: str) -> Advisory:
    """Parse an advisory and check all of it.

    `source`: The file, for messages.
    `name`: Name of the advisory: the file's name without `.toml`.

    Raises BadInputError, which lists every error in the file with its key and, for an unknown key, the nearest valid
    one.
    """
    tree = load_toml(text, f"advisory {source}")
    values: dict[str, Any] = {}
    faults = [fault for key, value in _flatten(tree) for fault in _check_key(key, value, values)]
    faults += [f"{key}: missing" for key in REQUIRED if key not in tree]
    faults += _check_whole(values)
    if faults:
        listed = "\n".join(f"  {fault}" for fault in faults)
        raise BadInputError(
            f"advisory {source}:\n{listed}", "Fix these keys; see `hpcmod catalogue advisory refresh --help`."
        )
    return Advisory(name, **values)


def _flatten(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        inner = name in _TABLES and isinstance(value, dict)
        yield from ((f"{name}.{key}", below) for key, below in value.items()) if inner else [(name, value)]


def _check_key(key: str, value: Any, values: dict[str, Any]) -> list[str]:
    """Store the checked value in `values`; return the errors."""
    if key not in KEYS:
        return [f"{key}: {_tell_unknown(key)}"]
    field, read = KEYS[key]
    try:
        values[field] = read(value)
    except (ValueError, HpcmodError) as err:
        return [f"{key}: {err}"]
    return []


def _tell_unknown(key: str) -> str:
    table, _, last = key.rpartition(".")
    if key in _TABLES:
        return f"must be a single table: [{key}]"
    if last in KEYS:
        return f"unknown key; {last} must stand above [{table}]"
    from difflib import get_close_matches

    near = get_close_matches(key, (*KEYS, *_TABLES), n=1)
    return "unknown key" + (f", did you mean {near[0]}?" if near else "")


def _check_whole(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield errors that involve more than one value."""
    if values.get("expires", "9999") < values.get("issued", ""):
        yield f"expires: {values['expires']} is before the issue date, {values['issued']}"
    for name in sorted({name for name, _ in values.get("set", ())} & set(values.get("unset", ()))):
        yield f"cure.set: {name} is also listed under unset"


@shaped({"type": "string", "minLength": 1, "maxLength": 4000})
def _lines(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a non-empty string")
    if len(value) > 4000:
        raise ValueError("must be at most 4000 characters: it is shown when a module is loaded")
    return value.strip()


@shaped(text_shape(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"))
def _day(value: Any) -> str:
    seconds_of(str(value))  # accept TOML dates and strings
    return str(value)


def _some(value: Any) -> tuple[str, ...]:
    """Validate a non-empty list of strings: an advisory with an empty list would apply to every image."""
    texts = check.texts(value)
    if not texts:
        raise ValueError("must not be empty; leave out digests and modules if every image is affected")
    return texts


@shaped(list_shape(text_shape("(sha256:)?[0-9a-f]{64}"), least=1))
def _digests(value: Any) -> tuple[str, ...]:
    digests = tuple(text.removeprefix("sha256:") for text in _some(value))
    bad = [text for text in digests if not re.fullmatch("[0-9a-f]{64}", text)]
    if bad:
        raise ValueError(f"must be sha256: and 64 hexadecimal digits, found {bad[0]!r}")
    return digests


@shaped(list_shape(TEXT, least=1))
def _modules(value: Any) -> tuple[str, ...]:
    return tuple(map(_pattern, _some(value)))


@shaped({"anyOf": [TEXT, list_shape(TEXT, least=1)]})
def _packages(value: Any) -> tuple[PackageRange, ...]:
    return tuple(map(parse_range, [check.check_text(value)] if isinstance(value, str) else _some(value)))


def _each(read: Callable[[str, Any], Any], shape: Shape) -> Check:
    """Return a check of each name and value of a table, which prefixes errors with the name."""

    @shaped(shape)
    def check_each(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, dict):
            raise ValueError("must be a table of names and values")
        parsed = []
        for name, item in value.items():
            try:
                parsed.append(read(name, item))
            except (ValueError, HpcmodError) as err:
                raise ValueError(f"{name}: {err}") from err
        return tuple(parsed)

    return check_each


def _host(name: str, value: Any) -> HostFact:
    table = {"path": value} if isinstance(value, str) else value
    if not isinstance(table, dict) or not {"path"} <= set(table) <= {"path", "version"}:
        raise ValueError(f"must be a path, or {{ path = ..., version = ... }}, found {value!r}")
    path = posixpath.normpath(check.path(table["path"]))
    words = [word.strip() for word in check.check_text(table["version"]).split(",")] if "version" in table else []
    bounds = [_BOUND.fullmatch(word) for word in words]
    if not all(bounds):
        raise ValueError(f"version must look like >=1.22 or >=1.22,<1.24; found {table['version']!r}")
    if (path.count(VERSION) == 1) != bool(bounds) or path.count(VERSION) > 1:
        raise ValueError(f"the path must contain {VERSION} exactly once if a version is given, and not otherwise")
    _pattern(path.replace(VERSION, "*"))
    return HostFact(path, tuple(Bound(name, *bound.groups()) for bound in bounds if bound))


def _pattern(value: str) -> str:
    if value.count("*") > MOST_STARS:
        raise ValueError(f"{value!r} contains more than {MOST_STARS} asterisks")
    return value


def _setting(name: str, value: Any) -> tuple[str, str]:
    return check.variable_name(name), check.text_or_nothing(value)


def _wanted(name: str, value: Any) -> tuple[str, str | None]:
    return check.variable_name(name), None if value is False else _pattern(check.text_or_nothing(value))


_BOUNDS = text_shape(rf" *{_BOUND.pattern} *(, *{_BOUND.pattern} *)*")
_HOST = [shape_of(check.path), object_shape({"path": shape_of(check.path), "version": _BOUNDS}, "path")]
_VARIABLE, _VALUE = shape_of(check.variable_name), shape_of(check.text_or_nothing)
_WANTED = {"anyOf": [{"const": False}, _VALUE]}

KEYS: Mapping[str, tuple[str, Check]] = {
    "title": ("title", check.check_text),
    "text": ("text", _lines),
    "source": ("source", check.matching(r"https://[!-~]{3,500}", "a URL that begins with https://")),
    "issued": ("issued", _day),
    "expires": ("expires", _day),
    "match.digests": ("digests", _digests),
    "match.modules": ("modules", _modules),
    "match.packages": ("packages", _packages),
    "match.host": ("host", _each(_host, table_shape({"anyOf": _HOST}))),
    "match.environment": ("environment", _each(_wanted, table_shape(_WANTED, _VARIABLE))),
    "cure.unset": ("unset", check.variable_names),
    "cure.set": ("set", _each(_setting, table_shape(_VALUE, _VARIABLE))),
}
"""For each key of the file: the field of Advisory and the check of its value."""

REQUIRED = ("title", "text", "source", "issued", "expires")
