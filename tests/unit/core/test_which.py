"""Programs are found on PATH, never in the working directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.which import which


def test_a_program_is_found_in_the_first_directory_that_has_it(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").touch(mode=0o755)
    path = f"{tmp_path}/missing:{tmp_path}/second:{tmp_path}/first"
    assert which("tool", {"PATH": path}) == f"{tmp_path}/second/tool"


@pytest.mark.parametrize("path", [".", "", ":/usr/bin", "./:/bin"])
def test_the_working_directory_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    (tmp_path / "tool").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    assert which("tool", {"PATH": path}) is None


def test_without_a_path_the_directories_of_the_system_are_searched() -> None:
    assert which("sh", {}) in ("/bin/sh", "/usr/bin/sh")
