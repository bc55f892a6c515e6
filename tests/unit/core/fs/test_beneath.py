from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod.core.fs.beneath import open_beneath


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "root/a/b").mkdir(parents=True)
    (tmp_path / "root/a/b/file").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("outside")
    descriptor = os.open(tmp_path / "root", os.O_PATH)
    yield descriptor
    os.close(descriptor)


def read(root: int, path: str) -> bytes:
    descriptor = open_beneath(root, path, os.O_RDONLY)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("path", ["a/b/file", "./a/./b/file", "a//b/file"])
def test_a_file_below_is_opened(root: int, path: str) -> None:
    assert read(root, path) == b"inside"


def test_the_directory_itself_is_opened(root: int) -> None:
    descriptor = open_beneath(root, ".", os.O_RDONLY | os.O_DIRECTORY)
    assert os.listdir(descriptor) == ["a"]
    os.close(descriptor)


@pytest.mark.parametrize("link", ["a", "a/b", "a/b/file"])
def test_a_link_at_any_place_is_refused(root: int, tmp_path: Path, link: str) -> None:
    (tmp_path / "root" / link).rename(tmp_path / "before")
    (tmp_path / "root" / link).symlink_to(tmp_path / "before")
    with pytest.raises(OSError, match="symbolic link") as caught:
        read(root, "a/b/file")
    assert caught.value.errno == errno.ELOOP


@pytest.mark.parametrize("path", ["../outside/file", "a/../../outside/file", "/etc/passwd"])
def test_a_path_that_points_out_is_refused(root: int, path: str) -> None:
    with pytest.raises(OSError, match="leads out") as caught:
        read(root, path)
    assert caught.value.errno == errno.EXDEV


def test_a_missing_entry_is_not_found(root: int) -> None:
    for path in ("x", "x/y", "a/x/y"):
        with pytest.raises(FileNotFoundError):
            read(root, path)


def test_a_file_is_created_with_its_mode_and_closed_for_programs(root: int, tmp_path: Path) -> None:
    descriptor = open_beneath(root, "a/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)
    assert stat.S_IMODE((tmp_path / "root/a/new").stat().st_mode) == 0o600


def test_nothing_stays_open(root: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("../x", "a/x", "x/y"):
        with pytest.raises(OSError, match=r"such|leads"):
            read(root, path)
    assert len(os.listdir("/proc/self/fd")) == before
