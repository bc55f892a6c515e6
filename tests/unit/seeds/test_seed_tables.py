"""The five documents that hpcmod was measured against: each row of their tables holds, or says who else does it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.machine import machine
from tests.seeds import Row, check, read_accounted, read_rows


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide everything of this machine that would appear in the output of a command."""
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_", "HPCMOD_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "SYSTEM_PROFILE", tmp_path / "none")


TABLES = sorted(Path(__file__).parent.glob("*.toml"))
ROWS = [
    pytest.param(one, id=f"{path.stem.upper()}{one.number} {one.what}") for path in TABLES for one in read_rows(path)
]


@pytest.mark.parametrize("one", ROWS)
@pytest.mark.slow
def test_a_row_holds(one: Row) -> None:
    check(one)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_row_is_accounted_for_once(path: Path) -> None:
    numbers, size = read_accounted(path)
    assert numbers == list(range(1, size + 1))
