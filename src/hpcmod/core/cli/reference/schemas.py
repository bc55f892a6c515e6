"""JSON Schemas of what commands print with --json, made from the dataclasses that they print, and of files.

Types are those of the fields, descriptions the strings below the fields, which are read from the source. The schemas of
files that people write are made from the tables of keys that check them.
"""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from hpcmod.core.cli.output import JSON_VERSION, CommandFailure, JsonOption
from hpcmod.core.cli.reference.commands import every_command, options_of
from hpcmod.core.registry import load, offered
from hpcmod.core.values.shape import Shape, object_shape, text_shape

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DIALECT_OF_EDITORS = "http://json-schema.org/draft-07/schema#"
_NAMES = text_shape("[A-Za-z0-9_-]+")
_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", Path: "string"}


@cache
def command_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each command with --json, and that of an error, by file name."""
    schemas = {
        f"{'-'.join(words)}.json": make_schema(f"hpcmod {' '.join(words)}", outputs)
        for words, command in every_command()
        if (outputs := outputs_of(command))
    }
    return {"error.json": make_schema("any command that fails", (CommandFailure,)), **schemas}


@cache
def file_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind of file that people write, by file name: `site-profile.json`."""
    return {f"{schema['title'].replace(' ', '-')}.json": schema for make in offered("schemas") for schema in [make()]}


def make_file_schema(
    title: str, keys: Mapping[str, tuple[Shape, str]], required: Sequence[str], of_tables: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """Return the schema of a kind of TOML files.

    `keys`: By dotted key, in which `*` is a name that the file chooses, the shape of the value, and its meaning.
    `of_tables`: What is different in the shape of tables.
    """
    whole: dict[str, Any] = {"$schema": _DIALECT_OF_EDITORS, "title": title, **object_shape({}, *required)}
    for key, (shape, meaning) in keys.items():
        *tables, name = key.split(".")
        table = whole
        for part in tables:
            table = _below(table, part, {**object_shape({}), **of_tables})
        _below(table, name, {**({"description": meaning} if meaning else {}), **shape})
    return whole


def _below(table: dict[str, Any], name: str, shape: Shape) -> dict[str, Any]:
    """Return what a table's schema says of a key or, for `*`, of all other keys; if nothing, set it to a shape."""
    if name == "*":
        table["propertyNames"] = _NAMES
    within, key = (table, "additionalProperties") if name == "*" else (table["properties"], name)
    within[key] = below = within.get(key) or {**shape}
    return below


def outputs_of(command: click.Command) -> tuple[type, ...]:
    """Return the values that a command may print with --json; none if it has no --json."""
    outputs = next((option.outputs for option in options_of(command) if isinstance(option, JsonOption)), ())
    return tuple(load(output) if isinstance(output, str) else output for output in outputs)


def make_schema(title: str, outputs: Iterable[type]) -> dict[str, Any]:
    """Return the schema of a JSON output, which is one of some values."""
    parts: dict[str, Any] = {}
    version = {"description": "Version of this format.", "const": JSON_VERSION}
    shapes = [_describe_object(output, parts, {"version": version}) for output in outputs]
    defined = {"$defs": {name: part for name, (_, part) in sorted(parts.items())}} if parts else {}
    whole = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    return {"$schema": _DIALECT, "title": title, **whole, **defined}


def _describe_object(kind: type, parts: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a dataclass or named tuple; those of the values in it are added to `parts`."""
    properties = {**first, **dict(_properties(kind, parts))}
    docstring = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    return {
        "type": "object",
        "description": docstring,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _properties(kind: type, parts: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    ways, hints, described = _ways_of(kind), _types_of(kind), descriptions_of(kind)
    for name, way in ways.items():
        hint = hints[name]
        if way == "spliced":
            yield from _properties(hint, parts)
            continue
        if way == "table":
            hint = dict[str, typing.get_args(typing.get_args(hint)[0])[1]]  # type: ignore[misc]
        text = described.get(name)
        yield name, {**({"description": text} if text else {}), **_describe(hint, parts)}


def _ways_of(kind: Any) -> dict[str, str | None]:
    """Return the fields of a dataclass or named tuple, each with its way to JSON, see `json_form`."""
    if is_dataclass(kind):
        ways = {field.name: field.metadata.get("json") for field in fields(kind)}
        return {name: way for name, way in ways.items() if way != "hidden"}
    if hasattr(kind, "_fields"):
        return dict.fromkeys(kind._fields)
    raise TypeError(f"{kind} has no JSON form")


def _describe(hint: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if hint in (Any, object):
        return {}
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        return _describe_union([_describe(arg, parts) for arg in args])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _describe(args[1], parts)}
    if origin is tuple and args[-1] is not Ellipsis:
        items = [_describe(arg, parts) for arg in args]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return {"type": "array", "items": _describe(args[0], parts)}
    return _refer_to(hint, parts)


def _describe_union(choices: list[dict[str, Any]]) -> dict[str, Any]:
    if all(list(choice) == ["type"] for choice in choices):
        return {"type": [choice["type"] for choice in choices]}
    return {"anyOf": choices}


def _refer_to(kind: type, parts: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in parts:
        parts[name] = kind, {}  # a value may contain others of its own type
        parts[name] = kind, _describe_object(kind, parts, {})
    if parts[name][0] is not kind:
        raise TypeError(f"{kind} and {parts[name][0]} have the same name in one schema")
    return {"$ref": f"#/$defs/{name}"}


def _bases_of(kind: type) -> list[type]:
    """Return the classes that define the fields of a dataclass or named tuple, itself first."""
    return [base for base in kind.__mro__ if is_dataclass(base) or hasattr(base, "_fields")]


def _types_of(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a dataclass, including types that its module imports for mypy alone."""
    names = {name: value for base in _bases_of(kind) for name, value in _names_for_types(base.__module__).items()}
    return typing.get_type_hints(kind, localns=names)


@cache
def _source_of(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


@cache
def _names_for_types(module: str) -> dict[str, Any]:
    body = _source_of(module).body
    guarded = [node for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [line for node in guarded for line in node.body if isinstance(line, ast.ImportFrom)]
    return {
        alias.asname or alias.name: getattr(import_module(line.module or ""), alias.name)
        for line in imports
        for alias in line.names
    }


def descriptions_of(kind: type) -> dict[str, str]:
    """Return the string below each field in the source of a dataclass and of those that it extends."""
    described: dict[str, str] = {}
    for base in reversed(_bases_of(kind)):
        nodes = ast.walk(_source_of(base.__module__))
        lines = next(node.body for node in nodes if isinstance(node, ast.ClassDef) and node.name == base.__name__)
        for line, below in zip(lines, lines[1:]):
            text = below.value if isinstance(below, ast.Expr) else None
            if isinstance(line, ast.AnnAssign) and isinstance(text, ast.Constant):
                described[ast.unparse(line.target)] = " ".join(str(text.value).split())
    return described
