from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hpcmod.core.errors import LackingError
from hpcmod.jobs.cli.allocation import PlaceFlags, make_allocation, run_again
from hpcmod.jobs.cli.run_options import SlurmFlags
from hpcmod.machine.machine import load_site
from tests.programs import make_program

FLAGS = PlaceFlags(
    SlurmFlags("project_1", "", "", "", "", ()),
    node_type="",
    gpus=-1,
    site=None,
)


def test_the_request_is_that_of_a_job_of_the_machine() -> None:
    words = make_allocation(FLAGS, load_site("lumi", {}), nodes=1, minutes=5)
    assert words[0] == "salloc"
    assert {"--nodes=1", "--ntasks-per-node=8", "--gpus-per-node=8", "--partition=standard-g", "--time=5"} <= set(words)


def test_without_a_scheduler_no_allocation_is_requested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LackingError, match="no Slurm here"):
        run_again(["salloc"])


@pytest.mark.slow
def test_a_refused_request_is_not_the_result_of_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in (
        ("sbatch", "exit 1"),
        ("salloc", 'echo "salloc: error: Invalid account" >&2; exit $SLURM_EXIT_ERROR'),
    ):
        make_program(tmp_path / name, f"#!/bin/sh\n{text}\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(LackingError, match="Slurm gave no nodes"):
        run_again(["salloc"])


@pytest.mark.slow
def test_the_same_command_line_runs_in_the_allocation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("sbatch", "exit 1"), ("salloc", 'shift; echo "$@"; exit 4')):
        make_program(tmp_path / name, f"#!/bin/sh\n{text}\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "hpcmod"), "check", "-N", "2"])
    assert run_again(["salloc", "--nodes=2"]) == 4
    assert capfd.readouterr().out == f"{tmp_path}/hpcmod check -N 2\n"
