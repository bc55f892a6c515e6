"""The schemas of JSON output; `tests/json_schemas.py` validates every output in the tests against them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcmod.cli.main import main
from tests.json_schemas import (
    SCHEMAS,
    called_command,
    check_output,
    commands_with_json,
    fault_of,
    schema_name,
    validator,
)

PAGE = SCHEMAS.parent / "json.md"
HEAD = """# JSON output

With `--json`, a command prints one object, which the [JSON Schema](https://json-schema.org/) in its row describes.
`version` changes if a field is removed or changes its meaning. New fields may be added without a new version, so accept
fields that you do not know; the schemas contain all fields that this release prints. If a command fails, it prints
[an error](schemas/error.json) instead, and exits with its code.

| command | prints | schema |
|---|---|---|
"""


def names() -> list[str]:
    return sorted(path.stem for path in SCHEMAS.iterdir())


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_every_command_with_json_has_a_schema_and_no_other() -> None:
    assert sorted({schema_name(words) for words, _ in commands_with_json()} | {"error"}) == names()


def objects_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every part of a schema that describes an object with named fields."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for part in schema.values():
            yield from objects_of(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects_of(part)


@pytest.mark.parametrize("name", names())
def test_a_field_that_no_schema_names_is_a_fault(name: str) -> None:
    validator(name)
    assert [
        list(one["properties"]) for one in objects_of(read(name)) if one.get("additionalProperties") is not False
    ] == []


def test_an_output_with_a_new_field_fails_the_test_that_prints_it() -> None:
    text = json.dumps({"version": 1, "catalogue": "/c", "more": 1})
    with pytest.raises(pytest.fail.Exception, match=r"catalogue-init.json: \$: .*'more' was unexpected"):
        check_output(main, ["catalogue", "init", "/c", "--json"], text)
    assert fault_of("catalogue-init", {"version": 1, "catalogue": "/c"}) == ""
    assert fault_of("ls", {"version": 1, "error": {"code": 3, "message": "no", "cure": ""}}) == ""


def test_the_command_is_found_behind_the_options_of_hpcmod() -> None:
    assert called_command(main, ["-v", "catalogue", "journal", "--json"]) == ("catalogue", "journal")
    assert called_command(main, ["exec", "x", "--json"]) == ()


def test_the_page_lists_every_schema(golden: Callable[[Path, str], None]) -> None:
    rows = [
        f"| `hpcmod {' '.join(words)}` | {read(schema_name(words))['description']} | "
        f"[{schema_name(words)}.json](schemas/{schema_name(words)}.json) |\n"
        for words, _ in sorted(commands_with_json())
    ]
    golden(PAGE, HEAD + "".join(rows))
