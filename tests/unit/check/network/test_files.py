"""Reading logs of an earlier run: files and directories, with limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.check.network import files
from hpcmod.check.network.files import read_logs
from hpcmod.errors import NotFoundError


def test_reads_files_and_directories_in_order(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank0.log").write_text("NCCL INFO Using network IB\n")
    (tmp_path / "logs" / "rank1.log").write_text("\n" + "x" * 9000 + "\nNCCL WARN Connection closed by remote peer a\n")
    (tmp_path / "job.out").write_bytes(b"\xff\xfe NCCL version 2.20.5\n")
    reading, notes = read_logs([tmp_path / "job.out", tmp_path / "logs"])
    assert (reading.values("version"), reading.values("network")) == (("NCCL 2.20.5",), ("IB",))
    assert reading.noted["peer-closed"].line == 3
    assert reading.noted["peer-closed"].file == str(tmp_path / "logs" / "rank1.log")
    assert notes == []


def test_what_is_missing_or_no_file_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path / "pipe"):
        with pytest.raises(NotFoundError, match=path.name):
            read_logs([path])


def test_stops_at_its_limits_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        (tmp_path / f"{number}.log").write_text("NCCL INFO Using network IB\n" * 100)
    monkeypatch.setattr(files, "MOST_FILES", 3)
    monkeypatch.setattr(files, "MOST_BYTES", 3000)
    reading, notes = read_logs([tmp_path])
    assert 100 < reading.lines <= 112
    assert notes[0] == "only the first 3 of 4 files were read"
    assert notes[1].endswith("1.log")
