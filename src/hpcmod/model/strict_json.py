"""Checked values out of JSON that a stranger may have written: each of its own kind, or an error that names its key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hpcmod.errors import BadInputError

Texts = tuple[tuple[str, str], ...]
"""Names and texts, in the order of the document."""

_MOST_TEXTS = 10_000  # variables, labels, annotations, arguments
_LARGEST = 1 << 62


class JsonObject:
    """A JSON object and where it stands; every method raises BadInputError for a value of another kind.

    Parameters
    ----------
    values
        What was read.
    where
        For messages.
    """

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise BadInputError(f"{where}: expected an object, found {show_value(values)}")
        self.values: Mapping[str, Any] = values
        """As they were read, not checked."""
        self.where = where

    def text(self, key: str) -> str:
        """Return a text; empty where there is none."""
        return self._text(self._get(key, ""), key)

    def number(self, key: str, default: int = -1) -> int:
        """Return a number that is not negative; without a default there must be one."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
            raise self.bad(key, "a number that is not negative", value)
        return value

    def object(self, key: str) -> JsonObject:
        """Return an object; one without values where there is none."""
        return JsonObject(self._get(key, {}), f"{self.where}: {key}")

    def objects(self, key: str, most: int) -> list[JsonObject]:
        """Return a list of objects, at most so many; empty where there is none."""
        return [JsonObject(value, f"{self.where}: {key}") for value in self._list(key, most)]

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; empty where there is none."""
        return tuple(self._text(value, key) for value in self._list(key, _MOST_TEXTS))

    def table(self, key: str) -> Texts:
        """Return an object of texts; null among them is an empty one."""
        found = self.object(key).values
        self._check_count(key, found, _MOST_TEXTS)
        return tuple(
            (self._text(name, key), self._text("" if value is None else value, key)) for name, value in found.items()
        )

    def bad(self, key: str, expected: str, found: Any) -> BadInputError:
        """Make the error for a value that is not as it must be."""
        return BadInputError(f"{self.where}: {key}: expected {expected}, found {show_value(found)}")

    def _get(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def _list(self, key: str, most: int) -> list[Any]:
        value = self._get(key, [])
        if not isinstance(value, list):
            raise self.bad(key, "a list", value)
        self._check_count(key, value, most)
        return value

    def _text(self, value: Any, key: str) -> str:
        if not isinstance(value, str):
            raise self.bad(key, "a text", value)
        if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
            raise self.bad(key, "characters that a program can be given", value)
        return value

    def _check_count(self, key: str, found: Sequence[Any] | Mapping[str, Any], most: int) -> None:
        if len(found) > most:
            raise BadInputError(f"{self.where}: {key}: {len(found)} entries, at most {most} are read")


def load_json(text: bytes, where: str, *, limit: int) -> Any:
    """Read JSON in UTF-8 of at most so many bytes.

    Raises
    ------
    BadInputError
        If it is none, or larger.
    """
    if len(text) > limit:
        raise BadInputError(f"{where}: more than {limit} bytes")
    try:
        return json.loads(text.decode())
    except (ValueError, RecursionError) as err:
        raise BadInputError(f"{where}: no JSON: {err}") from err


def show_value(value: Any) -> str:
    """Show a value in a message: short, and without characters that would move a terminal's cursor."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
