from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcmod.fs.removal import empty, remove_path


def precious(tmp_path: Path) -> Path:
    """Make a directory that nobody asked to remove."""
    path = tmp_path / "precious"
    path.mkdir()
    (path / "thesis").write_text("text")
    return path


def test_files_directories_and_what_is_missing_are_gone(tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").touch()
    (tmp_path / "file").touch()
    for name in ("d", "file", "missing", "missing/too", "file/below"):
        remove_path(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    kept = precious(tmp_path)
    (tmp_path / "d").mkdir()
    for link in (tmp_path / "link", tmp_path / "d/link"):
        link.symlink_to(kept)
    remove_path(tmp_path / "link")
    remove_path(tmp_path / "d")
    assert [path.name for path in tmp_path.rglob("*")] == ["precious", "thesis"]


def test_the_rest_goes_where_one_thing_cannot_be_removed(tmp_path: Path) -> None:
    (tmp_path / "d/closed").mkdir(parents=True)
    for name in ("a", "closed/file", "z"):
        (tmp_path / "d" / name).touch()
    (tmp_path / "d/closed").chmod(0o500)
    with pytest.raises(PermissionError):
        remove_path(tmp_path / "d")
    assert os.listdir(tmp_path / "d") == ["closed"]
    (tmp_path / "d/closed").chmod(0o700)


def test_a_planted_tree_of_hundreds_of_levels_is_an_error(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_PATH)
    for _ in range(300):
        os.mkdir("d", dir_fd=at)
        at, before = os.open("d", os.O_PATH, dir_fd=at), at
        os.close(before)
    os.close(at)
    with pytest.raises(OSError, match="nested too deeply"):
        remove_path(tmp_path / "d")
    subprocess.run(["rm", "-r", tmp_path / "d"], check=True)


def test_an_open_directory_is_emptied_whatever_has_its_name_now(tmp_path: Path) -> None:
    kept = precious(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/part").touch()
    descriptor = os.open(tmp_path / "mine", os.O_RDONLY)
    (tmp_path / "mine").rename(tmp_path / "moved")
    kept.rename(tmp_path / "mine")
    empty(descriptor)
    os.close(descriptor)
    assert list((tmp_path / "moved").iterdir()) == []
    assert (tmp_path / "mine/thesis").exists()
