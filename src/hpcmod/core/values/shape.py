"""JSON Schemas of values in files that people write, for their editors: at least what the checks of hpcmod accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Shape = Mapping[str, Any]
"""The JSON Schema of a value."""

Check = Callable[[Any], Any]
"""Returns a value that is known to be right; raises ValueError or HpcmodError."""

AnyCheck = TypeVar("AnyCheck", bound=Check)


def shaped(shape: Shape) -> Callable[[AnyCheck], AnyCheck]:
    """Return a decorator that notes the shape of the values that a check accepts."""

    def note(check: AnyCheck) -> AnyCheck:
        vars(check)["shape"] = shape
        return check

    return note


def shape_of(check: Check) -> Shape:
    """Return the shape of the values that a check accepts."""
    return dict(vars(check)["shape"])


def text_shape(pattern: str) -> Shape:
    """Return the shape of strings that match a regular expression as a whole."""
    return {"type": "string", "pattern": rf"^({pattern})$(?!\n)"}


def list_shape(items: Shape, *, least: int = 0) -> Shape:
    """Return the shape of lists with at least so many items."""
    return {"type": "array", "items": items, "minItems": least}


def table_shape(values: Shape, names: Shape | None = None) -> Shape:
    """Return the shape of tables with such values and names."""
    return {"type": "object", "propertyNames": names or {}, "additionalProperties": values}


def object_shape(keys: Mapping[str, Shape], *required: str) -> Shape:
    """Return the shape of tables with no other keys than these."""
    return {"type": "object", "properties": keys, "required": required, "additionalProperties": False}


TEXT = text_shape(r"[^\x00-\x1f\x7f]+")
"""A string of one line that is not empty."""
