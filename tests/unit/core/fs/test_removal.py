from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcmod.core.fs.removal import empty, is_open_to, remove_path


def precious(tmp_path: Path) -> Path:
    """Create a directory that must not be removed."""
    path = tmp_path / "precious"
    path.mkdir()
    (path / "thesis").write_text("text")
    return path


def test_files_directories_and_missing_paths_are_removed(tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").touch()
    (tmp_path / "file").touch()
    for name in ("d", "file", "missing", "missing/too", "file/below"):
        remove_path(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_removed_and_not_what_it_points_to(tmp_path: Path) -> None:
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


@pytest.mark.slow
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


def test_an_open_directory_is_emptied_even_if_another_has_its_name_now(tmp_path: Path) -> None:
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


def test_directories_that_only_their_owner_may_change_stay_if_asked(tmp_path: Path) -> None:
    group = tmp_path.stat().st_gid
    for name, mode in (("d", 0o775), ("d/open", 0o775), ("d/own", 0o755), ("d/own/below", 0o775)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
        (tmp_path / name / "file").touch()
    with pytest.raises(OSError, match="only its owner"):
        remove_path(tmp_path / "d", open_to=group)
    kept = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert kept == ["d", "d/own", "d/own/below", "d/own/below/file", "d/own/file"]


@pytest.mark.parametrize(("mode", "is_open"), [(0o775, True), (0o755, False), (0o1775, False), (0o707, True)])
def test_whether_a_group_may_remove_the_contents_of_a_directory(tmp_path: Path, mode: int, is_open: bool) -> None:
    tmp_path.chmod(mode)
    assert is_open_to(tmp_path.stat(), tmp_path.stat().st_gid) == is_open
    tmp_path.chmod(0o755)
