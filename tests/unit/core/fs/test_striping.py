"""The layout of new files on Lustre; the tool is a fake, as there is no Lustre here."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.fs.striping import set_layout
from tests.lustre import pretend_lustre


def test_sets_the_layout_of_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, said = pretend_lustre(monkeypatch, tmp_path / "lustre"), list[str]()
    set_layout(tmp_path, "", said.append)
    set_layout(tmp_path, "-E 64M -c 1 -E -1 -c 8", said.append)
    assert log.read_text() == f"setstripe -E 64M -c 1 -E -1 -c 8 {tmp_path}: lustre\n"
    assert said == []


def test_says_why_a_layout_could_not_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_lustre(monkeypatch, tmp_path / "lustre", status=1, error="no such pool")
    said: list[str] = []
    set_layout(tmp_path, "-c 8", said.append)
    monkeypatch.setenv("PATH", str(tmp_path))
    set_layout(tmp_path, "-c 8", said.append)
    assert said[0].endswith("because lfs setstripe -c 8 failed: no such pool")
    assert "lfs" in said[1].partition("failed: ")[2]


def test_elsewhere_than_on_lustre_nothing_is_asked_or_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = pretend_lustre(monkeypatch, tmp_path / "lustre")
    monkeypatch.setattr("hpcmod.core.fs.striping.find_file_system", lambda _: "xfs")
    set_layout(tmp_path, "-c 8", lambda _: None)
    assert log.read_text() == ""
