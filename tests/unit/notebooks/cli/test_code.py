from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.installations import install


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project directory of a user who has an installation."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    install(tmp_path, "PyTorch/2.6")
    (tmp_path / "software/PyTorch/2.6/in-environment").touch()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_three_files_are_written_once(project: Path) -> None:
    folder = project / ".vscode"
    assert "debugpy" in hpcmod("code", "PyTorch", "--dry-run").stdout and not folder.exists()
    assert hpcmod("code", "PyTorch").stdout.split() == [
        str(folder / n) for n in ("settings.json", "launch.json", "hpcmod-python")
    ]
    assert os.access(folder / "hpcmod-python", os.X_OK)
    assert json.loads(hpcmod("code", "PyTorch", "--json").stdout)["written"] == []


def test_files_with_comments_and_programs_of_others_are_refused(project: Path) -> None:
    folder = project / ".vscode"
    folder.mkdir()
    (folder / "settings.json").write_text("{\n// mine\n}")
    done = hpcmod("code", "PyTorch")
    assert (done.exit_code, "python.defaultInterpreterPath" in done.stderr) == (2, True)
    (folder / "settings.json").unlink()
    (folder / "hpcmod-python").write_text("#!/bin/sh\n")
    assert hpcmod("code", "PyTorch").exit_code == 2
    assert [path.name for path in folder.iterdir()] == ["hpcmod-python"]


def test_an_installation_without_its_program_must_be_repaired(project: Path) -> None:
    (project.parent / "software/PyTorch/2.6/in-environment").unlink()
    done = hpcmod("code", "PyTorch")
    assert (done.exit_code, "hpcmod repair PyTorch/2.6" in done.stderr) == (7, True)
