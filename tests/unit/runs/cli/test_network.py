"""`hpcmod check --network`: the command that starts the ranks, and what is made of their output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcmod.modules.installed import Installed
from hpcmod.modules.values.install_record import NO_RECORD
from hpcmod.runs.cli import check, network
from hpcmod.runs.network.run import Run
from hpcmod.runs.values.logs.allreduce import MARK
from hpcmod.runs.values.logs.reading import Reading, read_line
from tests.calls import hpcmod


@pytest.fixture(autouse=True)
def lumi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCMOD_SITE", "lumi")


@pytest.mark.parametrize("words", [(), ("PyTorch", "TensorFlow"), ("PyTorch", "--digest"), ("PyTorch", "--affinity")])
def test_it_needs_one_container_and_no_other_check(words: tuple[str, ...]) -> None:
    assert hpcmod("check", "--network", *words).exit_code == 2


def test_outside_an_allocation_the_dry_run_prints_what_requests_two_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "find_ready", lambda *_: None)
    words = hpcmod(
        "check", "--network", "PyTorch", "-A", "project_1", "-p", "small-g", "--ranks-per-node", "1", "--dry-run"
    ).stdout.split()
    assert words[0] == "salloc"
    assert {"--nodes=2", "--account=project_1", "--partition=small-g", "--time=10"} <= set(words)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocation of two nodes, with a container whose image is missing."""
    found = Installed("PyTorch/1", tmp_path / "1.lua", tmp_path, NO_RECORD)
    monkeypatch.setattr(check, "find_ready", lambda *_: found)
    monkeypatch.setattr(check, "find_image_mpi", lambda *_: "")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setenv("SLURM_JOB_PARTITION", "small-g")


@pytest.mark.usefixtures("job")
def test_in_an_allocation_the_ranks_start_as_in_a_job(tmp_path: Path) -> None:
    done = hpcmod("check", "--network", "PyTorch", "--ranks-per-node", "1", "--timeout", "30", "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("srun --overlap --ntasks=2 ")
    assert done.stdout.endswith(f"{tmp_path}/in-environment exec -- conda-python-distributed -c PROGRAM 30\n")


@pytest.mark.usefixtures("job")
def test_more_nodes_than_the_allocation_has_is_an_error() -> None:
    assert hpcmod("check", "--network", "PyTorch", "-N", "3", "--dry-run").exit_code == 2


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(("library", "status", "rule"), [("nccl", 1, "network"), ("gloo", 0, "network")])
def test_rates_the_output_of_the_ranks(monkeypatch: pytest.MonkeyPatch, library: str, status: int, rule: str) -> None:
    run = Run(Reading())
    for rank in range(2):
        report = {"rank": rank, "host": f"nid{rank}", "library": library, "size": 2, "error": "", "seconds": 0.1}
        run.results.add(f"{MARK}{json.dumps({**report, 'interface': 'hsn0'})}")
    read_line(run.reading, "NCCL INFO Using network Socket")
    monkeypatch.setattr(network, "run_allreduce", lambda *_, **__: run)
    done = hpcmod("check", "--network", "PyTorch", "--ranks-per-node", "1", "--json")
    levels = {finding["rule"]: finding["level"] for finding in json.loads(done.stdout)["findings"]}
    assert (done.exit_code, levels[library]) == (status, "ok")
    assert levels[rule] == ("fail" if library == "nccl" else "unknown")
