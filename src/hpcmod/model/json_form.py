"""The JSON form of values: what commands print with --json, and what records store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

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
