from __future__ import annotations

from pathlib import Path

import pytest

from tests.oci_corpus import CASES, write_case


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Images are converted and built in a temporary directory."""
    for variable, name in (("HOME", "home"), ("HPCMOD_CACHE", "cache"), ("HPCMOD_LOCK", "lock")):
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return write_case(tmp_path / "layout", CASES["plain"])
