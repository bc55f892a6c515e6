"""The JSON form of values: what commands print with --json, and what records store and are read from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.strict_json import JsonObject, Texts, load_json, show_value

Value = TypeVar("Value")

_MOST = 100_000  # entries of a list

SPLICED: Mapping[str, str] = {"json": "spliced"}
"""Metadata of a field whose own fields are printed in its place."""

TABLE: Mapping[str, str] = {"json": "table"}
"""Metadata of a field with pairs of a name and a value that are printed as an object."""

HIDDEN: Mapping[str, str] = {"json": "hidden"}
"""Metadata of a field that is not printed."""


def json_form(value: Any) -> Any:
    """Return a value as JSON can hold it: paths are text, lists and tuples lists, and others objects."""
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    if hasattr(value, "_fields"):  # a named tuple
        return {name: json_form(inner) for name, inner in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(key): json_form(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_form(inner) for inner in value]
    return str(value) if hasattr(value, "__fspath__") else value


def _object(value: Any) -> dict[str, Any]:
    form: dict[str, Any] = {}
    for field in fields(value):
        inner, way = getattr(value, field.name), field.metadata.get("json")
        if way == "spliced":
            form.update(json_form(inner))
        elif way != "hidden":
            form[field.name] = json_form(dict(inner) if way == "table" else inner)
    return form


def parse_json(
    kind: type[Value], text: bytes, where: str, *, limit: int, version: tuple[str, int] | None = None, **known: Any
) -> Value:
    """Return a dataclass or named tuple from its JSON form in UTF-8; see `parse_form`.

    `where`: File, for messages.
    `limit`: Largest size of the text in bytes.
    `version`: Key of the version of the format, and the only one that is read.
    `known`: Values of fields that are not in the text.

    Raises BadInputError if the text is damaged, or has another version.
    """
    data = JsonObject(load_json(text, where, limit=limit), where)
    if version and data.number(version[0], 0) != version[1]:
        found = data.values.get(version[0])
        cure = "Use the hpcmod version that wrote it, or a later one." if isinstance(found, int) else ""
        raise BadInputError(f"{where}: {version[0]}: expected version {version[1]}, found {show_value(found)}", cure)
    return parse_form(kind, data, **known)


def parse_form(kind: type[Value], data: JsonObject, **known: Any) -> Value:
    """Return a dataclass or named tuple from its JSON form.

    Other keys are ignored; a missing key, null or the default itself mean the default.

    `known`: Values of fields that are not read.

    Raises BadInputError if a value has another type than its field, or a field without a default is missing.
    """
    given: dict[str, Any] = {}
    for name, read, default in _readers_of(kind):  # type: ignore[arg-type]
        value = data.values if default is _SPLICED else data.values.get(name)
        if name in known or (value is None and default is not MISSING) or value == default:
            continue
        if value is None:
            raise BadInputError(f"{data.where}: {name} is missing")
        given[name] = read(data, name)
    return kind(**given, **known)


@cache
def _readers_of(kind: Any) -> tuple[tuple[str, Callable[[JsonObject, str], Any], Any], ...]:
    """Return the fields of a dataclass or named tuple, how each is read, and its default: MISSING if it has none."""
    if hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return tuple((name, _reader_of(hints[name]), kind._field_defaults.get(name, MISSING)) for name in kind._fields)
    # without `| None`, which Python 3.9 cannot evaluate
    written = SimpleNamespace(__annotations__={each.name: each.type.removesuffix(" | None") for each in fields(kind)})
    hints = get_type_hints(written, vars(sys.modules[kind.__module__]))
    return tuple((each.name, _reader_of(hints[each.name], each), _default_of(each)) for each in fields(kind))


_SPLICED = object()


def _default_of(field: Field[Any]) -> Any:
    if field.metadata.get("json") == "spliced":
        return _SPLICED
    return field.default if field.default_factory is MISSING else None


def _reader_of(hint: Any, field: Field[Any] | None = None) -> Callable[[JsonObject, str], Any]:
    if field and field.metadata.get("json") == "spliced":
        return lambda data, _: parse_form(hint, data)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        return lambda data, name: tuple(parse_form(kind, entry) for entry in data.objects(name, _MOST))
    return lambda data, name: parse_form(hint, data.object(name))


_SIMPLE: Mapping[Any, Callable[[JsonObject, str], Any]] = {
    str: JsonObject.text,
    int: JsonObject.number,
    float: JsonObject.rate,
    bool: JsonObject.flag,
    tuple[str, ...]: JsonObject.texts,
    Texts: JsonObject.table,
    Mapping[str, Any]: lambda data, name: data.object(name).values,
}
