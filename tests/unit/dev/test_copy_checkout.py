"""Copying root's checkout to a directory that the worker can read."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.stack import CHECKOUT

SCRIPT = str(CHECKOUT / "dev" / "lib" / "copy_checkout.py")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "from"
    (top / "src").mkdir(parents=True)
    (top / "src" / "a.py").write_text("a = 1\n")
    return top


def copy(source: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [SCRIPT, str(source), str(target)])
    runpy.run_path(SCRIPT, run_name="__main__")


def test_removes_what_the_checkout_lost_but_not_caches(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy(source, tmp_path / "to", monkeypatch)
    (source / "src" / "a.py").unlink()
    cache = tmp_path / "to" / "src" / "__pycache__" / "a.pyc"
    cache.parent.mkdir()
    cache.touch()
    copy(source, tmp_path / "to", monkeypatch)
    assert not (tmp_path / "to/src/a.py").exists()
    assert cache.exists()
