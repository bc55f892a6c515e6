from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.json_form import TABLE, json_form, parse_form, parse_json
from hpcmod.core.values.strict_json import JsonObject, Texts


class Pair(NamedTuple):
    left: str
    right: int = 0


@dataclass(frozen=True)
class Inner:
    path: str
    ok: bool | None = None


@dataclass(frozen=True)
class Whole:
    name: str
    count: int = 3
    rate: float = -1
    names: tuple[str, ...] = ()
    table: Texts = field(default=(), metadata=TABLE)
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    pairs: tuple[Pair, ...] = ()


INNERS = (Inner("/y"), Inner("/z", ok=True))
WHOLE = Whole("a", 0, 0.5, ("b", "c"), (("k", "v"),), Inner("/x", ok=False), INNERS, (Pair("l", 1),))


def parse(**values: Any) -> Whole:
    return parse_form(Whole, JsonObject({"name": "a", **values}, "file"))


def test_a_written_value_is_read_back() -> None:
    assert parse(**json.loads(json.dumps(json_form(WHOLE)))) == WHOLE


def test_what_is_missing_or_null_has_its_default_and_other_keys_are_ignored() -> None:
    assert parse(count=None, inner=None, rate=-1, later="x") == Whole("a")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": None}, "file: name is missing"),
        ({"name": "a\0"}, "file: name: expected a string that can be passed"),
        ({"count": True}, "file: count: expected a non-negative number"),
        ({"rate": float("nan")}, "file: rate: expected a non-negative number"),
        ({"names": "b"}, "file: names: expected a list"),
        ({"table": {"k": 1}}, "file: table: expected a string"),
        ({"inner": {"path": "/x", "ok": 1}}, "file: inner: ok: expected true or false"),
        ({"inners": [{}]}, "file: inners: path is missing"),
        ({"pairs": [["l", 1]]}, "file: pairs: expected an object"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(values: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse(**values)
    assert caught.value.message.startswith(said)


def test_text_of_another_version_is_refused_and_known_values_are_not_read() -> None:
    text = b'{"format": 2, "name": 7, "count": 1}'
    assert parse_json(Whole, text, "file", limit=99, version=("format", 2), name="a") == Whole("a", 1)
    with pytest.raises(BadInputError, match="file: format: expected version 1, found 2"):
        parse_json(Whole, text, "file", limit=99, version=("format", 1))
