"""The score of `hpcmod lint` on files with one fault each: faults found, and false findings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcmod.cli.main import main
from tests.corpora.lint_faults import CLEAN, FAULTS, Fault
from tests.foreign_recipes import write_tree

_SECOND_WORD = {"does-not-load", "unseen"}


def findings(file: str, text: str, top: Path) -> set[str]:
    """Return the rules that report something about a file."""
    write_tree(top, {file: text})
    done = CliRunner().invoke(main, ["lint", "--site", "lumi", "--json", str(top / file)])
    return {one["rule"] for one in json.loads(done.stdout)["files"][0]["findings"]}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    return {file: findings(file, text, tmp_path_factory.mktemp("clean")) for file, text in CLEAN.items()}


def score(faults: Iterator[Fault], clean: dict[str, set[str]], top: Path) -> tuple[list[str], list[str], int, int]:
    """Return the missed faults, the false findings, and the numbers of faults and of findings.

    A file has one fault. If one of its findings is on the line of the fault, the others count as consequences;
    otherwise, all are false.
    """
    missed, false, total, said = [], [], 0, 0
    for number, one in enumerate(faults):
        total += 1
        place = write_tree(top / str(number), {one.file: one.text}) / one.file
        done = CliRunner().invoke(main, ["lint", "--site", "lumi", "--json", str(place)])
        found = json.loads(done.stdout)["files"][0]["findings"]
        lines = one.text.splitlines() or [""]
        right = [f for f in found if one.line in lines[min(f["line"], len(lines)) - 1] or f["rule"] in _SECOND_WORD]
        said += len(found)
        missed += [] if found else [one.name]
        extra = [] if right else found
        false += [f"{one.name}: {f['rule']} in line {f['line']}" for f in extra]
    return missed, false, total, said


@pytest.mark.slow
def test_clean_files_have_no_findings(clean: dict[str, set[str]]) -> None:
    assert clean == {file: set() for file in CLEAN}


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [False, True], ids=["known", "held-out"])
def test_the_score(held_out: bool, clean: dict[str, set[str]], tmp_path: Path) -> None:
    chosen = (one for one in FAULTS if one.is_held_out == held_out)
    missed, false, total, said = score(chosen, clean, tmp_path)
    recall, precision = 1 - len(missed) / total, 1 - len(false) / max(1, said)
    print(f"{total} faults, recall {recall:.2f}, precision {precision:.2f}; missed {missed}; false {false}")
    assert recall >= 0.8, missed
    assert precision >= 0.95, false
