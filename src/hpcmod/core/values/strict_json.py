"""Type-checked access to JSON from untrusted sources: values of the expected type, or an error that names the key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hpcmod.core.errors import BadInputError

Texts = tuple[tuple[str, str], ...]
"""Pairs of strings, in the order of the document."""

_MOST_TEXTS = 10_000  # variables, labels, annotations, arguments
_LARGEST = 1 << 62

_NOT_FOR_PROGRAMS = re.compile("[\0\ud800-\udfff]")
"""What cannot be passed to a program: NUL, and halves of surrogate pairs, which UTF-8 cannot encode."""


class JsonObject:
    """A JSON object and its location; every method raises BadInputError for a value of the wrong type.

    `values`: The parsed JSON.
    `where`: File or address, for messages.
    """

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise BadInputError(f"{where}: expected an object, found {show_value(values)}")
        self.values: Mapping[str, Any] = values
        """The unchecked values."""
        self.where = where

    def text(self, key: str) -> str:
        """Return a string; empty if missing."""
        return self._text(self._get(key, ""), key)

    def number(self, key: str, default: int = -1) -> int:
        """Return a non-negative number; required unless there is a default."""
        return int(self._number(key, default, int))

    def rate(self, key: str) -> float:
        """Return a non-negative number, whole or not; required."""
        return float(self._number(key, -1, (int, float)))

    def flag(self, key: str) -> bool:
        """Return a boolean; False if missing."""
        value = self._get(key, False)
        if not isinstance(value, bool):
            raise self.bad(key, "true or false", value)
        return value

    def object(self, key: str) -> JsonObject:
        """Return an object; an empty one if missing."""
        return JsonObject(self._get(key, {}), f"{self.where}: {key}")

    def objects(self, key: str, most: int) -> list[JsonObject]:
        """Return a list of at most `most` objects; empty if missing."""
        where = f"{self.where}: {key}"
        return [JsonObject(value, where) for value in self._list(key, most)]

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; empty if missing."""
        return tuple(self._text(value, key) for value in self._list(key, _MOST_TEXTS))

    def table(self, key: str) -> Texts:
        """Return an object with string values; null counts as an empty string."""
        values = self.object(key).values
        self._check_count(key, values, _MOST_TEXTS)
        return tuple(
            (self._text(name, key), self._text("" if value is None else value, key)) for name, value in values.items()
        )

    def bad(self, key: str, expected: str, found: Any) -> BadInputError:
        """Return the error for an invalid value."""
        return BadInputError(f"{self.where}: {key}: expected {expected}, found {show_value(found)}")

    def _get(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def _number(self, key: str, default: int, kinds: Any) -> Any:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value < _LARGEST:
            raise self.bad(key, "a non-negative number", value)
        return value

    def _list(self, key: str, most: int) -> list[Any]:
        value = self._get(key, [])
        if not isinstance(value, list):
            raise self.bad(key, "a list", value)
        self._check_count(key, value, most)
        return value

    def _text(self, value: Any, key: str) -> str:
        if not isinstance(value, str):
            raise self.bad(key, "a string", value)
        if _NOT_FOR_PROGRAMS.search(value):
            raise self.bad(key, "a string that can be passed to a program", value)
        return value

    def _check_count(self, key: str, found: Sequence[Any] | Mapping[str, Any], most: int) -> None:
        if len(found) > most:
            raise BadInputError(f"{self.where}: {key}: {len(found)} entries, but at most {most} are allowed")


def load_json(text: bytes, where: str, *, limit: int) -> Any:
    """Parse JSON in UTF-8 of at most `limit` bytes.

    Raises BadInputError if it is invalid, or too large.
    """
    if len(text) > limit:
        raise BadInputError(f"{where}: larger than {limit} bytes")
    try:
        return json.loads(text.decode())
    except (ValueError, RecursionError) as err:
        raise BadInputError(f"{where}: invalid JSON: {err}") from err


def show_value(value: Any) -> str:
    """Return a short form of a value for messages, without terminal control characters."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
