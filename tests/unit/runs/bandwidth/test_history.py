"""Earlier results of a machine: lines that come back as they were, and lines of anything else."""

from __future__ import annotations

import multiprocessing
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.runs.bandwidth import history
from hpcmod.runs.bandwidth.history import MeasuredWith, history_file, read_earlier_points, remember_points
from hpcmod.runs.values.bandwidth.measurement import BandwidthPoint

HERE = MeasuredWith("lumi", "PyTorch/2.7.1", "12ab", "torch on GPUs")
POINT = BandwidthPoint("all_reduce", 2, 8, 1 << 30, 3, 10.5, 50.0, 90.5, 85.0, 95.0, 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return history_file(tmp_path / "hpcmod", "lumi")


def remember(path: Path, *points: BandwidthPoint, measured: MeasuredWith = HERE) -> None:
    remember_points(path, measured, points, date="2026-11-23T02:00:00Z", tell=lambda _: None)


def read(path: Path, measured: MeasuredWith = HERE) -> tuple[BandwidthPoint, ...]:
    told: list[str] = []
    points = read_earlier_points(path, measured, tell=told.append)
    assert told == []
    return points


def test_points_come_back_in_order_and_as_they_were(path: Path) -> None:
    assert read(path) == ()
    remember(path, POINT, replace(POINT, size=8))
    remember(path, replace(POINT, busbw=1.0))
    assert read(path) == (POINT, replace(POINT, size=8), replace(POINT, busbw=1.0))
    assert [entry.name for entry in path.parent.iterdir()] == ["bandwidth-lumi.jsonl"]


def test_each_machine_has_its_file(tmp_path: Path) -> None:
    assert history_file(tmp_path, "cray-ex.2").name == "bandwidth-cray-ex.2.jsonl"
    assert history_file(tmp_path, "../a b").name == "bandwidth-..-a-b.jsonl"


@pytest.mark.parametrize("other", [replace(HERE, site="frontier"), replace(HERE, method="torch on CPUs")])
def test_other_sites_and_methods_are_not_compared(path: Path, other: MeasuredWith) -> None:
    remember(path, POINT, measured=other)
    assert read(path) == ()
    assert read(path, replace(other, module="PyTorch/2.8", image="")) == (POINT,)


def test_the_file_is_private(path: Path) -> None:
    old = os.umask(0)
    try:
        remember(path, POINT)
    finally:
        os.umask(old)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path.parent, path)] == [0o700, 0o600]


def remember_ten(path: Path, first: int) -> None:
    for number in range(first, first + 10):
        remember(path, replace(POINT, busbw=float(number)), replace(POINT, busbw=number + 0.5))


@pytest.mark.slow
def test_processes_that_add_at_once_lose_nothing(path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=remember_ten, args=(path, first)) for first in (0, 10)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(point.busbw for point in read(path)) == [half / 2 for half in range(40)]


WRONG = {
    "text": b"hello",
    "endless": b"[" * 100_000,
    "without a point": b'{"date": "2026"}',
}


@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG)
def test_a_line_that_is_not_a_result_is_told_and_kept(path: Path, line: bytes) -> None:
    remember(path, POINT)
    path.write_bytes(path.read_bytes() + line + b"\n")
    remember(path, replace(POINT, busbw=1.0))
    told: list[str] = []
    assert read_earlier_points(path, HERE, tell=told.append) == (POINT, replace(POINT, busbw=1.0))
    assert told == [f"{path}: 1 lines are not results of `hpcmod bench`, and do not count"]
    assert line in path.read_bytes()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_what_is_not_a_file_is_told(path: Path, make: object) -> None:
    path.parent.mkdir()
    make(path)  # type: ignore[operator]
    told: list[str] = []
    assert read_earlier_points(path, HERE, tell=told.append) == ()
    remember_points(path, HERE, [POINT], date="2026-11-23T02:00:00Z", tell=told.append)
    assert [line.partition(f": {path}: ")[0] for line in told] == [
        "not compared with earlier runs",
        "not remembered for later runs",
    ]


def test_the_oldest_lines_are_dropped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_MOST_LINES", 3)
    for rate in range(5):
        remember(path, replace(POINT, busbw=float(rate)))
    assert [point.busbw for point in read(path)] == [2.0, 3.0, 4.0]
