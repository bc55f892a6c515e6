from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hpcmod.notebooks.cli.jupyter_session import open_session
from hpcmod.notebooks.values.server import Server


def test_a_session_is_private_and_removed_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with open_session(keep=False, here=False) as session:
        for path, mode in ((session.directory, 0o700), (session.directory / "token", 0o600), (session.program, 0o600)):
            assert stat.S_IMODE(path.stat().st_mode) == mode
        assert (session.find_server(), session.read_log()) == (None, [])
        (session.directory / "runtime/jpserver-7.json").write_text('{"hostname": "10.0.0.1", "port": 5}')
        session.log.write_text("a\nb\n")
        assert (session.find_server(), session.read_log()) == (Server("10.0.0.1", 5), ["a", "b"])
    assert list((tmp_path / "hpcmod/jupyter").iterdir()) == []


def test_a_dry_run_creates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with open_session(keep=True, here=False):
        assert list(tmp_path.iterdir()) == []
