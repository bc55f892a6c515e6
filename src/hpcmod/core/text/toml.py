"""Render TOML that parses back to the original values."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LONGEST = 120  # columns; longer arrays are written with one item per line


def render_toml(values: Mapping[str, Any]) -> str:
    """Return the TOML text of nested mappings: scalars and arrays first, then one table for each mapping.

    Mappings in the first two levels become tables, unless they are values with a condition; deeper ones are inline.
    """
    return "\n".join(_lines(values, ())) + "\n"


def render_commented(
    notes: Sequence[str], values: Sequence[tuple[str, Any, str]], unknown: Sequence[tuple[str, str]]
) -> str:
    """Return TOML with a comment above each value, and a comment for each key that is left out.

    `notes`: Lines of the comment at the top.
    `values`: Dotted key, value and comment; a table is written where its first key is.
    `unknown`: Dotted key or table, and why it is left out, or its value doubtful.
    """
    tables: dict[str, list[str]] = {"": [f"# {line}" for line in notes]}
    for key, value, comment in values:
        table, _, name = key.rpartition(".")
        tables.setdefault(table, []).extend((*_comment(comment), f"{_key(name)} = {_value(value)}"))
    for key, why in unknown:
        table = key if key in tables else key.rpartition(".")[0]
        doubtful = any(key == known for known, *_ in values)
        tables.get(table, tables[""]).extend(_comment(f"{key}: {why}" if doubtful else f"{key}: not known: {why}"))
    parts = [[f"[{'.'.join(map(_key, name.split('.')))}]"] * bool(name) + lines for name, lines in tables.items()]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _LONGEST, initial_indent="# ", subsequent_indent="# ")


def _lines(values: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    plain = {
        name: value for name, value in values.items() if not (isinstance(value, Mapping) and _is_table(names, value))
    }
    if names and (plain or not values):
        yield ""
        yield f"[{'.'.join(map(_key, names))}]"
    for name, value in plain.items():
        yield f"{_key(name)} = {_value(value)}"
    for name, value in values.items():
        if name not in plain:
            yield from _lines(value, (*names, name))


def _is_table(names: tuple[str, ...], value: Mapping[str, Any]) -> bool:
    """Return whether a mapping is written as a table: in the first two levels, and not a value with a condition."""
    return len(names) < 2 and not {"value", "busbw"} & set(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_value(element)}" for name, element in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        items = [_value(element) for element in value]
        line = f"[{', '.join(items)}]"
        return line if len(line) <= _LONGEST else "[\n" + "".join(f"    {item},\n" for item in items) + "]"
    return toml_text(str(value))


def toml_text(text: str) -> str:
    """Quote for TOML: a string in double quotes."""
    # JSON's escapes are valid in TOML, except for DEL
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
