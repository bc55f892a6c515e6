from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from hpcmod.core.fs.reading import UnusableFileError, open_regular, read_file, read_text


def test_a_file_is_read_completely_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_file(tmp_path / "a", 5) == b"12345"
    assert read_text(tmp_path / "a", 5) == "12345"


def test_a_link_of_the_user_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "link").symlink_to("a")
    assert read_file(tmp_path / "link", 5) == b"x"


def test_a_larger_file_is_refused_with_both_sizes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123456")
    with pytest.raises(UnusableFileError, match="has 6 bytes, expected at most 5") as caught:
        read_file(tmp_path / "a", 5)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "a"))


def test_a_huge_sparse_file_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UnusableFileError, match="has 1099511627776 bytes"):
        read_file(tmp_path / "a", 1 << 20)


def test_a_file_without_a_size_is_read_and_limited() -> None:
    assert b"MemTotal" in read_file("/proc/meminfo", 1 << 20)
    with pytest.raises(UnusableFileError, match="at most 10"):
        read_file("/proc/meminfo", 10)


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    with pytest.raises(UnusableFileError, match="is a FIFO, expected a regular file"):
        open_regular(tmp_path / "a")


def test_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFileError, match="is a device"):
        read_file("/dev/zero", 10)
    with pytest.raises(UnusableFileError, match="is a directory"):
        read_file(tmp_path, 10)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="No such device"):
            read_file(tmp_path / "s", 10)


def test_nothing_stays_open_where_a_file_is_refused(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UnusableFileError):
        open_regular(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
