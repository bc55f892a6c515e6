from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from hpcmod import replacing as replacing_module
from hpcmod.replacing import (
    clear_partials,
    partial_path,
    replacing,
    replacing_directory,
    resumable_path,
    write_file,
)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_block_that_raises_gives_nothing_its_final_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "a") as partial:
        partial.write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_file(tmp_path / "a", "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_what_killed_installations_left_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    for name in ("torch.sif", ".torch.sif.mine", "b"):
        (tmp_path / name).touch()
    partial_path(tmp_path / "torch.sif").touch()
    (tmp_path / ".record.json.hpcmod-part-99999").touch()
    resumable_path(tmp_path / "b").touch()
    (tmp_path / ".site.hpcmod-part-99999-old" / "a").mkdir(parents=True)
    (tmp_path / ".link.hpcmod-part-99999").symlink_to(tmp_path)
    clear_partials(tmp_path)
    assert names(tmp_path) == [".b.hpcmod-part", ".torch.sif.mine", "b", "torch.sif"]


def test_what_was_left_of_one_file_is_cleared_and_not_what_another_process_writes_beside_it(tmp_path: Path) -> None:
    for name in ("2.7.1.lua", "2.7.1.lua.old", "2.7.10.lua"):
        (tmp_path / f".{name}.hpcmod-part-99999").touch()
    clear_partials(tmp_path, "2.7.1.lua")
    assert names(tmp_path) == [".2.7.1.lua.old.hpcmod-part-99999", ".2.7.10.lua.hpcmod-part-99999"]


@pytest.fixture(params=["exchanged", "renamed twice"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to put a directory in the place of another: that of most file systems, and that of Lustre."""
    if request.param == "renamed twice":
        monkeypatch.setattr(replacing_module, "_exchange", lambda one, other: False)
    return str(request.param)


def write_pages(directory: Path, text: str) -> None:
    with replacing_directory(directory) as partial:
        for name in "ab":
            (partial / name).write_text(text)


def test_a_directory_is_replaced_whole(tmp_path: Path, way: str) -> None:
    for text in ("first", "second"):
        write_pages(tmp_path / "site", text)
        assert [path.read_text() for path in (tmp_path / "site").iterdir()] == [text, text]
        assert names(tmp_path) == ["site"]


def test_a_directory_that_is_not_finished_leaves_the_old_one(tmp_path: Path, way: str) -> None:
    write_pages(tmp_path / "site", "first")
    with pytest.raises(KeyboardInterrupt), replacing_directory(tmp_path / "site") as partial:
        (partial / "a").write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "site" / "a").read_text() == "first"
    assert names(tmp_path) == ["site"]


def test_who_looks_while_directories_are_exchanged_always_finds_one(tmp_path: Path) -> None:
    write_pages(tmp_path / "site", "0")
    stop = threading.Event()
    misses: list[int] = []

    def look() -> None:
        while not stop.is_set():
            misses.extend([1] * (not (tmp_path / "site").is_dir()))

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(200):
        write_pages(tmp_path / "site", str(number))
    stop.set()
    thread.join()
    assert misses == []
