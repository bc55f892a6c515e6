from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcmod.core.fs import temporary
from hpcmod.core.fs.temporary import PRIVATE, clear_leftovers, resumable_name, temporary_name

NAME_OF_A_DEAD_PROCESS = "from hpcmod.core.fs.temporary import temporary_name; print(temporary_name('x.sif'))"


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def dead_name() -> str:
    """Return a temporary name of a process that has exited."""
    done = subprocess.run([sys.executable, "-c", NAME_OF_A_DEAD_PROCESS], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_names_are_hidden_random_and_short_enough() -> None:
    assert temporary_name("a") != temporary_name("a")
    for name in ("a", "a" * 255, "\N{SNOWMAN}" * 80, "\udcff" * 200):
        for made in (temporary_name(name), resumable_name(name)):
            assert made.startswith(".")
            assert len(os.fsencode(made)) <= 255
    assert resumable_name("a" * 254 + "b") != resumable_name("a" * 254 + "c")


def test_removes_leftovers_of_dead_processes_and_keeps_files_in_use(tmp_path: Path) -> None:
    mine = temporary_name("x.sif")
    for name in (mine, dead_name(), resumable_name("x.sif"), "x.sif", ".x.sif.mine"):
        (tmp_path / name).touch()
    clear_leftovers(tmp_path)
    assert names(tmp_path) == sorted([mine, resumable_name("x.sif"), "x.sif", ".x.sif.mine"])


def test_directories_are_removed_with_their_contents_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    left = tmp_path / dead_name()
    (left / "a").mkdir(parents=True)
    left.chmod(PRIVATE)
    (tmp_path / dead_name()).mkdir()
    (tmp_path / dead_name()).symlink_to(tmp_path)
    clear_leftovers(tmp_path)
    assert names(tmp_path) == ["kept"]


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2770, 0o1777])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.slow
def test_a_directory_that_another_user_renamed_to_such_a_name_is_kept(tmp_path: Path, mode: int, alone: bool) -> None:
    renamed = tmp_path / dead_name()
    (renamed / "thesis").mkdir(parents=True)
    renamed.chmod(mode)
    clear_leftovers(tmp_path, alone=alone)
    assert (renamed / "thesis").is_dir()


def test_only_the_leftovers_of_one_name_go_if_it_is_given(tmp_path: Path) -> None:
    for name in ("2.7.1.lua", "2.7.1.lua.old", "2.7.10.lua"):
        (tmp_path / f".{name}.hpcmod-part-99999").touch()
    clear_leftovers(tmp_path, "2.7.1.lua", alone=True)
    assert names(tmp_path) == [".2.7.1.lua.old.hpcmod-part-99999", ".2.7.10.lua.hpcmod-part-99999"]


def test_the_holder_of_the_lock_clears_what_other_machines_left(tmp_path: Path) -> None:
    (tmp_path / ".x.hpcmod-part-0123abcd-77-88-99").touch()
    (tmp_path / resumable_name("x")).touch()
    clear_leftovers(tmp_path)
    assert len(names(tmp_path)) == 2
    clear_leftovers(tmp_path, alone=True)
    assert names(tmp_path) == [resumable_name("x")]


def test_keeps_files_of_another_user_whose_process_may_be_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / dead_name()).touch()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    clear_leftovers(tmp_path)
    assert len(names(tmp_path)) == 1


def test_a_later_process_with_the_same_pid_is_a_different_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / temporary_name("x")).touch()
    monkeypatch.setattr(temporary, "start_of", lambda pid: "1")
    clear_leftovers(tmp_path)
    assert names(tmp_path) == []


def test_a_missing_directory_has_no_leftovers(tmp_path: Path) -> None:
    clear_leftovers(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
