"""The reference page of site profiles is generated from the schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from hpcmod.doctor.cli.schema import explain
from hpcmod.machine.values.schema import SCHEMA

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "site-profile.md"
HEADING = "## The keys\n"


def make_table() -> str:
    """Return a table with one row per key, in the order of the schema."""
    rows = [f"| `{key.replace('*', 'NAME')}` | {known.form} | {explain(key)} |" for key, known in SCHEMA.items()]
    return "\n".join(["| key | value | meaning |", "|---|---|---|", *rows, ""])


def test_the_reference_page_is_the_schema(golden: Callable[[Path, str], None]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, heading, rest = text.partition(HEADING)
    assert heading
    after = rest[rest.index("\n## ") :]
    golden(PAGE, f"{before}{HEADING}\n{make_table()}{after}")


def test_keys_of_one_table_stand_together() -> None:
    tables = [table for table, _ in groupby(re.sub(r"\..*", "", key) for key in SCHEMA)]
    assert len(tables) == len(set(tables))
