"""Hide Slurm, the runtime and all settings of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.machine import machine


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide everything of this machine that would appear in the output of a command."""
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_", "HPCMOD_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "SYSTEM_PROFILE", tmp_path / "none")
