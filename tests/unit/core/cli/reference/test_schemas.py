"""JSON Schemas of what commands print."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from jsonschema import Draft202012Validator

from hpcmod.core import resources
from hpcmod.core.cli.reference.schemas import command_schemas, file_schemas, make_schema
from hpcmod.core.values.json_form import SPLICED, TABLE, json_form
from tests.golden import CHECKOUT

if TYPE_CHECKING:
    from hpcmod.core.values.finding import Finding


@dataclass(frozen=True)
class _Size:
    """A size."""

    rows: int
    """Number of rows,
    counted from 1."""
    columns: int | None


@dataclass(frozen=True)
class _Thing:
    """A thing, which may contain others.

    More that no schema needs.
    """

    path: Path
    level: Literal["ok", "fail"]
    share: float
    pairs: tuple[tuple[str, int], ...]
    labels: tuple[tuple[str, str], ...] = field(metadata=TABLE)
    counts: Mapping[str, int]
    size: _Size = field(metadata=SPLICED)
    findings: list[Finding]
    parts: tuple[_Thing, ...]
    other: _Size | None
    anything: Any


THING = _Thing(
    *(Path("/a"), "ok", 0.5, (("a", 1),), (("b", "c"),), {"d": 2}, _Size(3, None), [], ()), other=None, anything=[1]
)


def test_the_form_of_a_value_is_valid_in_its_schema() -> None:
    schema = make_schema("thing", [_Thing])
    value = {"version": 1, **json_form(THING)}
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(value)
    assert (value["path"], value["pairs"], value["labels"]) == ("/a", [["a", 1]], {"b": "c"})
    assert (value["rows"], "size" in value) == (3, False)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("path", 1), ("level", "warn"), ("share", "1"), ("pairs", [["a"]]), ("labels", {"b": 1}), ("counts", [])),
        *(("rows", None), ("findings", [{"level": "ok"}]), ("parts", [1]), ("other", {"rows": 1}), ("more", 1)),
    ],
)
def test_another_form_is_not(name: str, wrong: object) -> None:
    value = {"version": 1, **json_form(THING), name: wrong}
    assert not Draft202012Validator(make_schema("thing", [_Thing])).is_valid(value)


def test_descriptions_are_the_strings_below_the_fields() -> None:
    schema = make_schema("thing", [_Thing])
    assert schema["description"] == "A thing, which may contain others."
    assert schema["properties"]["rows"] == {"description": "Number of rows, counted from 1.", "type": "integer"}


def test_a_type_without_a_json_form_is_refused() -> None:
    @dataclass(frozen=True)
    class Wrong:
        value: bytes

    with pytest.raises(TypeError, match="bytes"):
        make_schema("wrong", [Wrong])


@pytest.mark.slow
def test_an_editor_accepts_all_files_there_are_and_underlines_a_mistake(tmp_path: Path) -> None:
    """Taplo is the program behind TOML in Visual Studio Code, and resolves `#:schema` as there."""
    page = (CHECKOUT / "docs/how-to/advisories.md").read_text(encoding="utf-8")
    advisory = page.partition("```toml\n")[2].partition("```")[0]
    texts = {"advisory.json": [advisory], "site-profile.json": list(resources.site_profiles().values())}
    texts["recipe.json"] = [path.read_text(encoding="utf-8") for path in (CHECKOUT / "recipes").glob("*.toml")]
    for kind, schema in file_schemas().items():
        (tmp_path / kind).write_text(json.dumps(schema))
        for number, text in enumerate(texts[kind]):
            (tmp_path / f"{number}-{kind}.toml").write_text(f"#:schema {(tmp_path / kind).as_uri()}\n{text}")
    assert taplo(tmp_path) == ""
    (tmp_path / "0-advisory.json.toml").write_text(f"#:schema advisory.json\n{advisory.replace('[cure]', '[cures]')}")
    assert "'cures' was unexpected" in taplo(tmp_path)


def taplo(directory: Path) -> str:
    """Return what taplo says of the files in a directory; empty if it accepts them."""
    argv = [Path(sys.executable).with_name("taplo"), "check", "--colors", "never"]
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


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


@pytest.mark.slow
def test_every_command_has_a_valid_schema_that_allows_no_other_field() -> None:
    for name, schema in command_schemas().items():
        Draft202012Validator.check_schema(schema)
        assert [list(part["properties"]) for part in objects_of(schema) if part["additionalProperties"]] == [], name
