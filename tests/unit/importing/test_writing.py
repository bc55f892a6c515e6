from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.importing.outcome import ImportedEasyconfig
from hpcmod.importing.writing import ImportRow, write_easyconfigs
from hpcmod.modules.values.easyconfig import EasyconfigText

ONE = ImportedEasyconfig("from/x.lua", EasyconfigText("Tool", "1", "x.sif", "x"), ("a", "b"), ("c",), ("d",))
PATH = "t/Tool/Tool-1.eb"


def write(directory: Path, *, force: bool = False, dry_run: bool = False) -> ImportRow:
    (row,) = write_easyconfigs([ONE], directory, verb="hpcmod import x", force=force, dry_run=dry_run)
    return row


def test_it_is_written_to_the_robot_path_with_its_origin_and_its_losses(tmp_path: Path) -> None:
    row = write(tmp_path)
    assert (row.status, row.module, row.path) == ("converted", "Tool/1", str(tmp_path / PATH))
    assert (row.left_out, row.notes, row.changed) == (("a", "b"), ("c",), ("d",))
    lines = (tmp_path / PATH).read_text().splitlines()
    assert lines[:5] == [
        "# made by hpcmod import x from from/x.lua",
        *("# not carried over: a", "# not carried over: b", "# changed: d", "# c"),
    ]
    assert len(lines) <= 25


def test_nothing_is_replaced_but_with_force(tmp_path: Path) -> None:
    write(tmp_path)
    assert write(tmp_path).status == "unchanged"
    (tmp_path / PATH).write_text("mine")
    assert write(tmp_path).status == "exists"
    assert (tmp_path / PATH).read_text() == "mine"
    assert write(tmp_path, force=True).status == "converted"
    assert "easyblock" in (tmp_path / PATH).read_text()
    assert [path.name for path in (tmp_path / PATH).parent.iterdir()] == ["Tool-1.eb"]


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path: Path) -> None:
    assert write(tmp_path / "new", dry_run=True) == replace(write(tmp_path / "new"), path=str(tmp_path / "new" / PATH))
    write(tmp_path / "other", dry_run=True)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("force", [False, True])
def test_the_second_that_makes_a_module_is_refused_and_names_the_first(force: bool, tmp_path: Path) -> None:
    second = replace(ONE, origin="from/y.lua", easyconfig=replace(ONE.easyconfig, description="y"))
    rows = list(write_easyconfigs([ONE, second], tmp_path, verb="x", force=force))
    assert [row.status for row in rows] == ["converted", "refused"]
    assert rows[1].reason.endswith("Tool/1 is made by from/x.lua")
    assert "from from/x.lua" in (tmp_path / PATH).read_text()


@pytest.mark.parametrize("change", [{"description": "a\0b"}, {"image": "docker://short"}], ids=str)
def test_refuses_values_that_cannot_be_written(change: dict[str, str], tmp_path: Path) -> None:
    bad = replace(ONE, easyconfig=replace(ONE.easyconfig, **change))
    (row,) = write_easyconfigs([bad], tmp_path, verb="x")
    assert row.status == "refused"
    assert row.reason
    assert list(tmp_path.iterdir()) == []
