"""`hpcmod verify-net`: logs of an earlier run, and the command that starts the ranks."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcmod.check.network.run import Run
from hpcmod.cli.main import main
from hpcmod.cli.runs import verify_net
from hpcmod.cli.runs.verify_net import VerifyFlags, verify_net_verb
from hpcmod.install.installed import Installed
from hpcmod.model.logs.allreduce import MARK
from hpcmod.model.logs.reading import read_line
from tests.logs import excerpts

GOOD = """\
NCCL version 2.29.2+cuda13.2
NCCL INFO NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)
NCCL INFO Using network AWS Libfabric
"""


def hpcmod(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["verify-net", *map(str, words)])


@pytest.fixture(autouse=True)
def lumi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCMOD_SITE", "lumi")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


def test_the_flags_are_the_options_of_the_command() -> None:
    assert {field.name for field in fields(VerifyFlags)} == {parameter.name for parameter in verify_net_verb.params}


def test_a_log_of_the_machines_network_is_fine(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(GOOD)
    done = hpcmod("--read", tmp_path)
    assert (done.exit_code, done.stdout) == (0, "ok   network: NCCL 2.29.2+cuda13.2: OFI through cxi, 4 NICs\n")


def test_a_log_of_a_slower_network_fails_with_reason_and_cure(tmp_path: Path) -> None:
    text = "NCCL INFO NET/Plugin: No plugin found (librccl-net.so)\nNCCL INFO Using network Socket\n"
    (tmp_path / "x.log").write_text(text)
    done = hpcmod("--read", tmp_path / "x.log")
    assert done.exit_code == 1
    assert done.stdout.startswith("fail network: NCCL: TCP sockets; this machine has OFI through cxi; because no ")
    assert "hpcmod compat" in done.stdout


def test_programs_get_the_facts(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(GOOD * 2)
    answer = json.loads(hpcmod("--read", tmp_path / "x.log", "--json").stdout)
    assert answer["facts"]["provider"] == {"cxi": 2}
    assert (answer["fabric"], answer["lines"], answer["unread"], answer["ranks"]) == ("cxi", 6, 0, [])


def test_every_excerpt_of_the_corpus_gives_valid_output(tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text("\n".join(excerpt.text for excerpt in excerpts()))
    assert hpcmod("--read", tmp_path / "all.log", "--json").exit_code == 1


def test_control_characters_of_a_log_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("NCCL WARN \x1b]0;owned\x07 odd \u202e\n")
    done = hpcmod("--read", tmp_path / "x.log")
    assert "odd" in done.stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout)


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    assert hpcmod("--read", tmp_path / "none").exit_code == 3


def test_several_containers_are_an_error() -> None:
    assert hpcmod("PyTorch", "TensorFlow").exit_code == 2


def test_outside_an_allocation_the_dry_run_prints_what_requests_two_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_net, "find_ready", lambda *_: None)
    words = hpcmod("PyTorch", "-A", "project_1", "-p", "small-g", "--ranks-per-node", "1", "--dry-run").stdout.split()
    assert words[0] == "salloc"
    assert {"--nodes=2", "--account=project_1", "--partition=small-g", "--time=10"} <= set(words)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocation of two nodes, with a container whose image is missing."""
    found = Installed("PyTorch/1", tmp_path / "1.lua", tmp_path, {})
    monkeypatch.setattr(verify_net, "find_ready", lambda *_: found)
    monkeypatch.setattr(verify_net, "find_image_mpi", lambda *_: "")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setenv("SLURM_JOB_PARTITION", "small-g")


@pytest.mark.usefixtures("job")
def test_in_an_allocation_the_ranks_start_as_in_a_job(tmp_path: Path) -> None:
    done = hpcmod("PyTorch", "--ranks-per-node", "1", "--timeout", "30", "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("srun --overlap --ntasks=2 ")
    assert done.stdout.endswith(f"{tmp_path}/in-environment exec -- conda-python-distributed -c PROGRAM 30\n")


@pytest.mark.usefixtures("job")
def test_more_nodes_than_the_allocation_has_is_an_error() -> None:
    assert hpcmod("PyTorch", "-N", "3", "--dry-run").exit_code == 2


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(("library", "status", "rule"), [("nccl", 1, "network"), ("gloo", 0, "network")])
def test_rates_the_output_of_the_ranks(monkeypatch: pytest.MonkeyPatch, library: str, status: int, rule: str) -> None:
    run = Run()
    for rank in range(2):
        report = {"rank": rank, "host": f"nid{rank}", "library": library, "size": 2, "error": "", "seconds": 0.1}
        run.results.add(f"{MARK}{json.dumps({**report, 'interface': 'hsn0'})}")
    read_line(run.reading, "NCCL INFO Using network Socket")
    monkeypatch.setattr(verify_net, "run_allreduce", lambda *_, **__: run)
    done = hpcmod("PyTorch", "--ranks-per-node", "1", "--json")
    levels = {finding["rule"]: finding["level"] for finding in json.loads(done.stdout)["findings"]}
    assert (done.exit_code, levels[library]) == (status, "ok")
    assert levels[rule] == ("fail" if library == "nccl" else "unknown")
