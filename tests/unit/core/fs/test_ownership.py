from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hpcmod.core.fs.ownership import make_private_directory, others_may_change


@pytest.mark.parametrize(("mode", "they_may"), [(0o644, False), (0o755, False), (0o664, True), (0o646, True)])
def test_a_mode_says_whether_others_may_change_a_file(tmp_path: Path, mode: int, they_may: bool) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(mode)
    assert others_may_change((tmp_path / "a").stat()) is they_may


def test_a_file_of_another_user_is_theirs_to_change_but_roots_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = tmp_path.stat()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert others_may_change(status)
    assert not others_may_change(Path("/usr").stat())


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_private_directory_is_private_regardless_of_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        make_private_directory(tmp_path / "a/b/c")
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("a", "a/b", "a/b/c")} == {0o700}


def test_a_directory_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o777)
    make_private_directory(tmp_path / "a")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(OSError, match="not to you"):
        make_private_directory(tmp_path / "a")
