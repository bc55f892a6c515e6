"""The tests that the page on security names exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "explanation" / "security.md"
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text(encoding="utf-8"))


def test_every_guarantee_names_a_test() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## What is guaranteed")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and "| test |" not in line]
    assert len(rows) > 15
    assert [row for row in rows if "`tests/" not in row] == []


def test_a_test_that_is_named_exists() -> None:
    for path in dict.fromkeys(path for path, _ in NAMED):
        tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {name for where, name in NAMED if where == path and name} - there == set(), path
