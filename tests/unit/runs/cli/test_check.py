from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.programs import make_program
from tests.unit.runs.nodes.test_report import SCONTROL, SRUN

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_PARTITION": "small"}


def test_outside_an_allocation_the_dry_run_prints_what_requests_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCMOD_SITE", "lumi")
    done = hpcmod("check", "-N", "4", "-A", "project_465000001", "-p", "standard-g", "--dry-run")
    assert done.exit_code == 0, done.output
    words = done.stdout.split()
    assert words[0] == "salloc"
    assert {"--nodes=4", "--account=project_465000001", "--partition=standard-g", "--time=5"} <= set(words)
    (command,) = json.loads(hpcmod("check", "-A", "project_1", "--dry-run", "--json").stdout)["commands"]
    assert command.startswith("salloc ")


@pytest.mark.parametrize("site", ["polaris", "tuolumne"])
def test_the_schedulers_of_other_machines_are_refused(site: str) -> None:
    done = hpcmod("check", "--site", site)
    assert (done.exit_code, f"this machine's scheduler is {'PBS' if site == 'polaris' else 'Flux'}" in done.stderr) == (
        7,
        True,
    )


def test_the_account_that_a_site_needs_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCMOD_SITE", "lumi")
    monkeypatch.delenv("SBATCH_ACCOUNT", raising=False)
    done = hpcmod("check", "--dry-run")
    assert (done.exit_code, "--account" in done.stderr) == (2, True)


def test_more_nodes_than_the_allocation_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**JOB, "HPCMOD_SITE": "generic"}.items():
        monkeypatch.setenv(name, value)
    done = hpcmod("check", "-N", "3")
    assert (done.exit_code, "this allocation has 2" in done.stderr) == (2, True)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An allocation of two nodes, with a small script that replaces srun."""
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        make_program(tmp_path / name, text)
    (tmp_path / "python3").symlink_to(sys.executable)
    for name, value in {**JOB, "HPCMOD_SITE": "generic", "ANSWERING": "nid001 nid002"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


@pytest.mark.slow
def test_each_node_has_a_line_and_a_bad_one_is_named(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = hpcmod("check")
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.stdout.splitlines()[:2]] == ["nid001", "nid002"]
    monkeypatch.setenv("APPTAINER_BINDPATH", f"{job}/nowhere:/data")
    done = hpcmod("check")
    assert done.exit_code == 1
    assert f"fail all nodes: bind path {job}/nowhere does not exist here, so containers do not start" in done.stdout
    assert done.stdout.count("nowhere") == 1 and "--exclude" not in done.stdout + done.stderr


@pytest.mark.slow
def test_json_has_every_fact_and_rank(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWERING", "nid001")
    done = hpcmod("check", "--json", "--affinity", "--ranks-per-node", "1")
    printed = json.loads(done.stdout)
    assert (done.exit_code, printed["missing"]) == (1, ["nid002"])
    assert printed["nodes"][0]["cpus"] == os.cpu_count()
    assert printed["ranks"][0]["host"] == "nid001"
