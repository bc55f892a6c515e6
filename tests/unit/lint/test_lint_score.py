"""Files with one fault each: `hpcmod lint` reports it, and nothing on a line without a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.corpora.lint_faults import CLEAN, FAULTS, Fault
from tests.foreign_recipes import write_tree


def findings(file: str, text: str, top: Path) -> list[tuple[str, int]]:
    """Return the rule and line of what is reported about a file."""
    write_tree(top, {file: text})
    done = hpcmod("lint", "--site", "lumi", "--json", str(top / file))
    return [(found["rule"], found["line"]) for found in json.loads(done.stdout)["files"][0]["findings"]]


@pytest.mark.slow
def test_clean_files_have_no_findings(tmp_path: Path) -> None:
    assert [findings(file, text, tmp_path) for file, text in CLEAN.items()] == [[] for _ in CLEAN]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_is_found_on_its_line(fault: Fault, tmp_path: Path) -> None:
    found = findings(fault.file, fault.text, tmp_path)
    lines = fault.text.splitlines() or [""]
    assert any(rule == "does-not-load" or fault.line in lines[min(at, len(lines)) - 1] for rule, at in found), found
