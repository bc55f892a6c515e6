"""The history of runs: what is kept, who may write it, and files with other contents."""

from __future__ import annotations

import os
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.check.bandwidth import history
from hpcmod.check.bandwidth.history import MeasuredWith, read_earlier_points, remember_points
from hpcmod.errors import BadInputError
from hpcmod.model.bandwidth.measurement import BandwidthPoint

HERE = MeasuredWith("lumi", "PyTorch/2.7.1", "12ab", "torch on GPUs")
POINT = BandwidthPoint("all_reduce", 2, 8, 1 << 30, 3, 10.5, 50.0, 90.5, 85.0, 95.0, 0)


def remember(path: Path, *points: BandwidthPoint, measured: MeasuredWith = HERE, private: bool = False) -> None:
    remember_points(path, measured, points, time="2026-11-23T02:00:00Z", private=private, tell=lambda _: None)


def test_points_come_back_in_order_and_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    assert read_earlier_points(path, HERE) == ()
    remember(path, POINT, replace(POINT, size=8))
    remember(path, replace(POINT, busbw=1.0))
    assert read_earlier_points(path, HERE) == (POINT, replace(POINT, size=8), replace(POINT, busbw=1.0))
    assert [entry.name for entry in tmp_path.iterdir()] == ["h.sqlite"]


@pytest.mark.parametrize("other", [replace(HERE, site="frontier"), replace(HERE, method="torch on CPUs")])
def test_other_sites_and_methods_are_not_compared(tmp_path: Path, other: MeasuredWith) -> None:
    remember(tmp_path / "h", POINT, measured=other)
    assert read_earlier_points(tmp_path / "h", HERE) == ()
    assert read_earlier_points(tmp_path / "h", replace(other, module="PyTorch/2.8", image="")) == (POINT,)


def test_the_users_own_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "state" / "hpcmod" / "h"
    old = os.umask(0)
    try:
        remember(path, POINT, private=True)
    finally:
        os.umask(old)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path.parent, path)] == [0o700, 0o600]


def test_a_file_in_a_groups_directory_is_the_groups(tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    remember(tmp_path / "h", POINT)
    assert stat.S_IMODE((tmp_path / "h").stat().st_mode) == 0o664
    (tmp_path / "h").chmod(0o640)
    remember(tmp_path / "h", POINT)
    assert stat.S_IMODE((tmp_path / "h").stat().st_mode) == 0o640


def test_a_link_is_replaced_and_its_target_kept(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("")
    (tmp_path / "h").symlink_to("precious")
    remember(tmp_path / "h", POINT)
    assert (tmp_path / "precious").read_text() == "" and not (tmp_path / "h").is_symlink()


def database(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.write_bytes(b"hello" * 100), id="text"),
        pytest.param(lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096), id="damaged"),
        pytest.param(lambda path: database(path, "CREATE TABLE moz_places (url)"), id="another program's"),
        pytest.param(
            lambda path: database(
                path,
                history._TABLE,
                "CREATE TRIGGER t AFTER INSERT ON bandwidth BEGIN DELETE FROM bandwidth; END",
            ),
            id="with a trigger",
        ),
        pytest.param(lambda path: path.mkdir(), id="directory"),
        pytest.param(os.mkfifo, id="pipe"),
    ],
)
def test_other_files_are_refused_and_kept(tmp_path: Path, make: object) -> None:
    path = tmp_path / "h"
    make(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else b""
    for act in (lambda: read_earlier_points(path, HERE), lambda: remember(path, POINT)):
        with pytest.raises(BadInputError, match="is not a history"):
            act()
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_rows_that_no_run_can_have_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "h"
    remember(path, POINT)
    marks = ", ".join("?" * 16)
    connection = sqlite3.connect(path)
    for wrong in ({"busbw": "fast"}, {"busbw": 1e300}, {"size": -5}, {"collective": 7}, {"time": None}):
        values = {**dict(zip(history._VALUES, [*POINT.__dict__.values()])), **wrong}
        row = ["2026", HERE.site, "m", "i", HERE.method, *values.values()]
        connection.execute(f"INSERT INTO bandwidth VALUES ({marks})", row)  # noqa: S608
    connection.commit()
    connection.close()
    assert read_earlier_points(path, HERE) == (POINT,)


def test_the_oldest_rows_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_MOST_ROWS", 3)
    for rate in range(5):
        remember(tmp_path / "h", replace(POINT, busbw=float(rate)))
    assert [point.busbw for point in read_earlier_points(tmp_path / "h", HERE)] == [2.0, 3.0, 4.0]
