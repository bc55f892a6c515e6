"""Printing findings: text from outside never reaches the terminal as a control sequence."""

from __future__ import annotations

import json

import pytest

from hpcmod.core.cli.findings import show_findings
from hpcmod.core.values.finding import FAIL, OK, Finding

HOSTILE = Finding(FAIL, "an image\x1b[2J", "label \x1b]0;owned\x07", "remove \x9b it")


def test_text_from_outside_reaches_the_terminal_without_its_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        show_findings([HOSTILE], as_json=False)
    said = capsys.readouterr().out
    assert end.value.code == 1
    assert said == "fail an image?[2J: label ?]0;owned?\n     remove ? it\n"


def test_a_program_gets_the_text_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        show_findings([HOSTILE], as_json=True)
    assert json.loads(capsys.readouterr().out)["findings"][0]["found"] == HOSTILE.found


def test_nothing_that_fails_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        show_findings([Finding(OK, "python", "3.12")], as_json=False)
    assert end.value.code == 0
    assert capsys.readouterr().out == "ok   python: 3.12\n"
