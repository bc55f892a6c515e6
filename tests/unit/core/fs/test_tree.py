from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.core.fs.reading import UnusableFileError
from hpcmod.core.fs.temporary import temporary_name
from hpcmod.core.fs.tree import Tree, write_file


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "shared/d").mkdir(parents=True)
    (tmp_path / "shared/d/file").write_text("inside")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/file").write_text("thesis")
    return Tree(tmp_path / "shared")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_paths_may_be_relative_or_whole(tree: Tree) -> None:
    assert tree.read("d/file", 100) == tree.read(tree.root / "d/file", 100) == b"inside"
    with tree.open_file("d/file") as file:
        assert file.read() == b"inside"


def test_all_that_points_to_a_file_is_checked_before_it_is_read(tree: Tree) -> None:
    seen: list[os.stat_result] = []
    with tree.open_checked("d/file", seen.append) as file:
        assert file.read() == b"inside"
    assert [one.st_ino for one in seen] == [(tree.root / path).stat().st_ino for path in ("d", "d/file")]

    def refuse(status: os.stat_result) -> None:
        raise PermissionError(errno.EACCES, f"is closed: {stat.S_IFMT(status.st_mode):o}")

    with pytest.raises(PermissionError, match="is closed: 40000") as caught:
        tree.open_checked("d/file", refuse)
    assert caught.value.filename == str(tree.root / "d/file")
    (tree.root / "link").symlink_to("d")
    with pytest.raises(OSError, match="symbolic link"):
        tree.open_checked("link/file", seen.append)


def test_a_file_is_written_completely_with_its_mode_regardless_of_the_umask(tree: Tree) -> None:
    before = os.umask(0o077)
    try:
        tree.write("d/new", "text", mode=0o664)
        tree.write("d/file", b"bytes")
    finally:
        os.umask(before)
    assert ((tree.root / "d/new").read_text(), mode(tree.root / "d/new")) == ("text", 0o664)
    assert ((tree.root / "d/file").read_bytes(), mode(tree.root / "d/file")) == (b"bytes", 0o644)


def test_a_failed_write_leaves_the_old_file(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as caught:
        tree.write("d/file", "new")
    assert caught.value.filename == str(tree.root / "d/file")
    assert (tree.root / "d/file").read_text() == "inside"
    assert names(tree.root / "d") == ["file"]


def test_a_link_that_has_the_name_is_replaced_not_followed(tree: Tree, tmp_path: Path) -> None:
    for write in (lambda: tree.write("link", "new"), lambda: write_file(tree.root / "link", "new")):
        (tree.root / "link").unlink(missing_ok=True)
        (tree.root / "link").symlink_to(tmp_path / "home/file")
        write()
        assert not (tree.root / "link").is_symlink()
        assert (tmp_path / "home/file").read_text() == "thesis"


DOES: dict[str, Callable[[Tree], object]] = {
    "read": lambda tree: tree.read("d/file", 100),
    "open": lambda tree: os.close(tree.open("d/file", os.O_WRONLY | os.O_TRUNC)),
    "write": lambda tree: tree.write("d/file", "evil"),
    "status": lambda tree: tree.status("d/file"),
    "entries": lambda tree: tree.entries("d"),
    "make_directory": lambda tree: tree.make_directory("d/e"),
    "change_mode": lambda tree: tree.change_mode("d/file", 0o666),
    "rename": lambda tree: tree.rename("d/file", "d/other"),
    "rename into": lambda tree: tree.rename("mine", "d/file"),
    "remove": lambda tree: tree.remove("d/file"),
}


@pytest.mark.parametrize("does", DOES.values(), ids=DOES)
def test_a_directory_that_became_a_link_is_refused(tree: Tree, tmp_path: Path, does: Callable[[Tree], object]) -> None:
    (tree.root / "mine").write_text("mine")
    tree.remove("d")
    (tree.root / "d").symlink_to(tmp_path / "home")
    with pytest.raises(OSError, match="symbolic link") as caught:
        does(tree)
    assert caught.value.errno == errno.ELOOP
    assert str(caught.value.filename).startswith(str(tree.root))
    assert names(tmp_path / "home") == ["file"]
    assert ((tmp_path / "home/file").read_text(), mode(tmp_path / "home/file")) == ("thesis", 0o644)


@pytest.mark.parametrize("path", ["link", "fifo"])
def test_only_regular_files_are_read(tree: Tree, tmp_path: Path, path: str) -> None:
    (tree.root / "link").symlink_to(tmp_path / "home/file")
    os.mkfifo(tree.root / "fifo")
    with pytest.raises(OSError, match=r"symbolic link|is a FIFO"):
        tree.read(path, 100)


def test_a_symbolic_link_replaces_another(tree: Tree) -> None:
    for target in ("one", "two"):
        tree.symlink("new-link", target)
        assert tree.read_link("new-link") == target
    assert [name for name in tree.names() if name.startswith(".new-link")] == []


def test_a_file_above_the_limit_is_refused(tree: Tree) -> None:
    with pytest.raises(UnusableFileError, match="at most 5") as caught:
        tree.read("d/file", 5)
    assert caught.value.filename == str(tree.root / "d/file")


def test_a_mode_is_set_on_files_and_directories_and_on_nothing_else(tree: Tree, tmp_path: Path) -> None:
    tree.change_mode("d/file", 0o600)
    tree.change_mode("d", 0o2770)
    assert (mode(tree.root / "d/file"), mode(tree.root / "d")) == (0o600, 0o2770)
    (tree.root / "link").symlink_to(tmp_path / "home/file")
    with pytest.raises(OSError, match="neither a regular file nor a directory"):
        tree.change_mode("link", 0o666)
    assert mode(tmp_path / "home/file") == 0o644


def test_directories_are_listed_sorted_with_what_links_are(tree: Tree) -> None:
    (tree.root / "a").symlink_to("d")
    assert tree.names() == ["a", "d"]
    assert [stat.S_ISLNK(status.st_mode) for _, status in tree.entries()] == [True, False]
    assert tree.names("missing") == tree.names("d/file") == []


def test_directories_are_made_with_their_mode_regardless_of_the_umask(tree: Tree) -> None:
    tree.make_directory("a/b", 0o2775)
    tree.make_directory("a/b/c")
    tree.make_directory("a/b", 0o700)
    assert [mode(tree.root / path) for path in ("a", "a/b")] == [0o2775, 0o2775]
    assert (tree.root / "a/b/c").is_dir()


def test_removes_and_renames_without_following_links(tree: Tree, tmp_path: Path) -> None:
    (tree.root / "link").symlink_to(tmp_path / "home")
    tree.rename("d/file", "moved")
    for path in ("link", "d", "missing", "missing/too"):
        tree.remove(path)
    assert names(tree.root) == ["moved"]
    assert names(tmp_path / "home") == ["file"]


def test_the_root_itself_and_paths_outside_are_not_reported(tree: Tree, tmp_path: Path) -> None:
    for path in ("", ".", tree.root):
        with pytest.raises(OSError, match="is the root"):
            tree.remove(path)
    with pytest.raises(OSError, match="leads out"):
        tree.remove("../home/file")
    with pytest.raises(OSError, match="leads out"):
        tree.remove(tmp_path / "home/file")


def test_nothing_stays_open(tree: Tree) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for does in DOES.values():
        (tree.root / "mine").touch()
        (tree.root / "d").mkdir(exist_ok=True)
        (tree.root / "d/file").touch()
        does(tree)
    for path in ("missing", "d"):
        with pytest.raises(OSError, match=r"such|directory"):
            tree.read(path, 10)
    assert len(os.listdir("/proc/self/fd")) == before


def test_only_an_empty_directory_is_removed_as_such_and_none_behind_a_link(tmp_path: Path) -> None:
    for name in ("full/file", "empty", "elsewhere/empty"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("elsewhere")
    for name in ("full", "empty", "link/empty", "missing"):
        Tree(tmp_path).remove_empty(name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "full", "link"]
    assert (tmp_path / "elsewhere/empty").exists()


def test_a_second_name_is_given_to_regular_files_only(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    (tmp_path / "file").write_text("text")
    (tmp_path / "new").write_text("older")
    (tmp_path / "link").symlink_to("file")
    for _ in range(2):  # the second call does nothing: both names are already the same file
        tree.link("file", "new")
        assert (tmp_path / "new").samefile(tmp_path / "file")
    with pytest.raises(OSError, match="not a regular file"):
        tree.link("link", "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "new"]


def test_a_write_removes_what_killed_processes_left_of_the_same_file(tree: Tree) -> None:
    for name in ("file", "link", "other"):
        child = os.fork()
        if not child:
            (tree.root / "d" / temporary_name(name)).touch()
            os._exit(0)
        os.waitpid(child, 0)
    tree.write("d/file", "new")
    tree.symlink("d/link", "file")
    assert [name.partition("-part")[0] for name in names(tree.root / "d")] == [".other.hpcmod", "file", "link"]


def test_a_directory_that_cannot_be_listed_can_be_written(tree: Tree) -> None:
    (tree.root / "d").chmod(0o300)
    tree.write("d/file", "new")
    (tree.root / "d").chmod(0o700)
    assert names(tree.root / "d") == ["file"]
