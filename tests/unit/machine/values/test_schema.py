"""The reference page of site profiles is generated from the schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from hpcmod.core.cli.reference.schemas import descriptions_of
from hpcmod.machine.values.schema import SCHEMA
from hpcmod.machine.values.site import TABLES, Limits, NodeType, Site, StagePlace

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "site-profile.md"
HEADING = "## The keys\n"
OWNERS = {"": Site, "nodes.*": NodeType, "limits.*": Limits, "stage.*": StagePlace}


def make_table() -> str:
    """Return a table with one row per key, in the order of the schema."""
    rows = [f"| `{key.replace('*', 'NAME')}` | {known.form} | {explain(key)} |" for key, known in SCHEMA.items()]
    return "\n".join(["| key | value | meaning |", "|---|---|---|", *rows, ""])


def explain(key: str) -> str:
    """Return the meaning of a key, from the string below its field, with the default."""
    if SCHEMA[key].meaning:
        return SCHEMA[key].meaning
    table, _, name = key.rpartition(".")
    owner = OWNERS.get(table) or type(TABLES[table])
    default = owner._field_defaults.get(name)
    words = default if isinstance(default, tuple) else [default]
    shown = ", ".join(f"`{word}`" for word in words if word)
    return descriptions_of(owner)[name] + (f" Default: {shown}." if shown else "")


def test_the_reference_page_is_the_schema(golden: Callable[[Path, str], None]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, heading, rest = text.partition(HEADING)
    assert heading
    after = rest[rest.index("\n## ") :]
    golden(PAGE, f"{before}{HEADING}\n{make_table()}{after}")


def test_keys_of_one_table_stand_together() -> None:
    tables = [table for table, _ in groupby(re.sub(r"\..*", "", key) for key in SCHEMA)]
    assert len(tables) == len(set(tables))
