from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hpcmod.core.fs.ownership import first_shared, make_private_directory, others_may_change, others_may_replace


@pytest.mark.parametrize(("mode", "they_may"), [(0o644, False), (0o755, False), (0o664, True), (0o646, True)])
def test_a_mode_says_whether_others_may_change_a_file(tmp_path: Path, mode: int, they_may: bool) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(mode)
    assert others_may_change((tmp_path / "a").stat()) is they_may
    assert others_may_replace(tmp_path / "a") is they_may


def test_a_file_of_another_user_is_theirs_to_change_but_roots_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = tmp_path.stat()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert others_may_change(status)
    assert not others_may_change(Path("/usr").stat())


def test_directories_above_count_too(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    assert not others_may_replace(tmp_path / "a/b/file")
    (tmp_path / "a").chmod(0o775)
    assert others_may_replace(tmp_path / "a/b/file")
    (tmp_path / "a").chmod(0o1777)
    assert not others_may_replace(tmp_path / "a/b/file")


def test_the_target_of_a_link_counts(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o777)
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "link").symlink_to("shared")
    assert others_may_replace(tmp_path / "link/file")


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


def test_the_first_directory_that_others_may_write_is_found(tmp_path: Path) -> None:
    below = tmp_path / "open/closed"
    below.mkdir(parents=True)
    assert first_shared(below / "new/x") is None
    (tmp_path / "open").chmod(0o2775)
    (tmp_path / "link").symlink_to(below)
    assert first_shared(tmp_path / "link/new") == tmp_path / "open"
    (tmp_path / "open").chmod(0o1777)
    assert first_shared(below) is None
