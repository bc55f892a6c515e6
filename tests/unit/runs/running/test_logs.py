from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from hpcmod.core.errors import NotFoundError
from hpcmod.jobs.values.facts import JobFacts, JobFiles
from hpcmod.runs.running import logs
from hpcmod.runs.running.logs import find_logs, read_given


def job(directory: Path, output: str = "", error: str = "") -> JobFacts:
    told = ("7", "train", "FAILED", "", 1, 0, "nid001", 1, 2, "", "")
    return JobFacts(*told, JobFiles(output, error, str(directory)), running=False, waiting=False)


def test_files_and_directories_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.out").write_text("one\n")
    debug = tmp_path / "debug"
    debug.mkdir()
    (debug / "rccl-rank3.log").write_text("two\n")
    (debug / "nccl_trace_rank_1").write_bytes(pickle.dumps({"entries": []}, 2))
    (debug / "link").symlink_to("/etc/passwd")
    found = read_given([tmp_path / "a.out", debug])
    assert [(Path(log.name).name, log.ranks) for log in found.logs] == [("a.out", ()), ("rccl-rank3.log", (3,))]
    assert [dump.rank for dump in found.dumps] == [1] and found.unknown == ()


def test_of_a_very_long_log_the_middle_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_HEAD", 10)
    monkeypatch.setattr(logs, "_TAIL", 10)
    (tmp_path / "a").write_text("b" * 10 + "-" * 100 + "e" * 10)
    found = read_given([tmp_path / "a"])
    assert found.logs[0].text == "b" * 10 + "e" * 10
    assert "in the middle were not read" in found.unknown[0]


def test_a_device_and_a_pickle_that_is_not_a_dump_are_reported(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x80\x02cos\nsystem\n.")
    found = read_given([tmp_path / "x", Path("/dev/null")])
    assert "not a pickle of plain values" in found.unknown[0] and "/dev/null was not read" in found.unknown[1]
    with pytest.raises(NotFoundError, match="no such file"):
        read_given([tmp_path / "y"])


def test_too_many_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_FILES", 1)
    monkeypatch.setattr(logs, "_MOST_BYTES", 3)
    for name in "ab":
        (tmp_path / name).write_text("text")
    assert read_given([tmp_path]).unknown == ("1 files were not read: more than 1",)
    monkeypatch.setattr(logs, "_MOST_FILES", 2)
    assert "more than 0 MB in total" in read_given([tmp_path]).unknown[0]


def test_the_logs_of_a_job_are_found(tmp_path: Path) -> None:
    (tmp_path / "train-7.out").write_text("")
    (tmp_path / "hpcmod-debug-7").mkdir()
    named = find_logs(job(tmp_path, "train-7.out", "train-7.err"))
    assert [path.name for path in named[0]] == ["train-7.out", "hpcmod-debug-7"]
    assert named[1] == [f"{tmp_path}/train-7.err: the output of the job is not there"]
    assert [path.name for path in find_logs(job(tmp_path))[0]] == ["train-7.out", "hpcmod-debug-7"]
    (tmp_path / "train-7.out").unlink()
    assert "by its name" in find_logs(job(tmp_path))[1][0]
