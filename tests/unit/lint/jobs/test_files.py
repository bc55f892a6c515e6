from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.lint.jobs.files import is_batch_script, read_batch_file


@pytest.mark.parametrize("data", [b"#!/bin/bash\r\n", b"#!/bin/bash\n# caf\xe9\n"])
def test_carriage_returns_and_bytes_of_latin1_stay(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.sh").write_bytes(data)
    assert read_batch_file(tmp_path / "a.sh") == data.decode("latin-1")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x7fELF\0\0", "not text: byte 0"),
        (b"#" * (20 << 20), "expected at most 262144"),
        (b"#" * (3 << 16), "a line is longer than 128 KiB"),
    ],
    ids=["binary", "20 MB", "long line"],
)
def test_refuses_a_file_that_is_not_a_script(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "a.sh").write_bytes(data)
    with pytest.raises(BadInputError, match=says):
        read_batch_file(tmp_path / "a.sh")


def test_pipes_devices_and_directories_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.sh")
    for path in (tmp_path / "pipe.sh", Path("/dev/zero"), tmp_path):
        with pytest.raises(BadInputError, match="expected a regular file"):
            read_batch_file(path)


def test_a_huge_sparse_file_is_not_read_completely(tmp_path: Path) -> None:
    with (tmp_path / "a.sh").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInputError, match="expected at most"):
        read_batch_file(tmp_path / "a.sh")


def test_a_batch_script_is_recognized_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!/bin/bash\n")
    (tmp_path / "other").write_text("name = 'x'\n")
    os.mkfifo(tmp_path / "pipe")
    assert is_batch_script(tmp_path / "run")
    assert is_batch_script(tmp_path / "x.sbatch")
    assert not any(is_batch_script(tmp_path / name) for name in ("other", "pipe", "x.eb"))
