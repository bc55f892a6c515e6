"""`hpcmod job` and `hpcmod launch`: what they print, write, run and refuse."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

from hpcmod import machine
from hpcmod.cli import job, launch
from hpcmod.cli.main import main

LUMI = ("--site", "lumi", "-A", "project_1")
FAKE_SBATCH = """#!/bin/bash
# Stands for sbatch: notes its arguments, and takes every script but one that asks for an account called broke.
echo "$@" >>{log}
script=$(cat "${{!#}}" 2>/dev/null || cat)
[[ $script != *broke* ]] || {{ echo 'sbatch: error: Invalid account' >&2; exit 1; }}
[[ $* == *--test-only* ]] || {{ echo '42;virtual'; exit; }}
echo 'sbatch: Job 7 to start at 2026-11-21 using 16 processors on nodes nid001' >&2
"""


class TakenOverError(Exception):
    """Stands for the program that takes our place."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__(" ".join(argv))
        self.argv = list(argv)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Slurm, no settings, and a directory of the test's own."""
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_"))] + ["HPCMOD_SITE", "SIF"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setattr(machine, "SYSTEM_PROFILE", tmp_path / "none")
    monkeypatch.chdir(tmp_path)

    def become(argv: Sequence[str]) -> NoReturn:
        raise TakenOverError(argv)

    monkeypatch.setattr(job, "become", become)
    monkeypatch.setattr(launch, "become", become)


@pytest.fixture
def sbatch(tmp_path: Path) -> Path:
    """A stand-in for sbatch on PATH; returns the file with its arguments."""
    program, log = tmp_path / "bin" / "sbatch", tmp_path / "log"
    program.parent.mkdir()
    program.write_text(FAKE_SBATCH.format(log=log).replace("cat", "/bin/cat"))
    program.chmod(0o755)
    return log


def hpcmod(*arguments: str, **env: str) -> Result:
    return CliRunner(env=env).invoke(main, arguments)


def test_the_script_goes_to_stdout_and_nothing_is_written(tmp_path: Path) -> None:
    done = hpcmod("job", "PyTorch", *LUMI, "--", "train.py")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("#!/bin/bash\n")
    assert "conda-python-distributed train.py\n" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_written_and_only_that(tmp_path: Path) -> None:
    done = hpcmod("job", "PyTorch", *LUMI, "-o", "my.sh", "--", "train.py")
    assert (done.exit_code, done.stdout) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["my.sh"]


def test_a_file_that_somebody_else_wrote_is_not_touched() -> None:
    Path("my.sh").write_text("precious\n")
    done = hpcmod("job", "PyTorch", *LUMI, "-o", "my.sh", "--", "train.py")
    assert done.exit_code == 2
    assert Path("my.sh").read_text() == "precious\n"


def test_the_same_command_writes_its_own_file_again() -> None:
    for _ in range(2):
        assert hpcmod("job", "PyTorch", *LUMI, "-o", "my.sh", "--", "train.py").exit_code == 0


def test_everything_that_is_missing_is_named_with_how_to_give_it() -> None:
    done = hpcmod("job", "PyTorch", "--site", "marenostrum5", "-A", "bsc98", "--", "train.py")
    assert done.exit_code == 2
    assert "--qos and --time" in done.stderr
    assert "Add --qos QOS --time TIME, or export SBATCH_QOS=... SBATCH_TIMELIMIT=... once." in done.stderr


def test_variables_of_sbatch_count_as_given() -> None:
    given = {"SBATCH_ACCOUNT": "bsc98", "SBATCH_QOS": "acc", "SBATCH_TIMELIMIT": "10"}
    done = hpcmod("job", "PyTorch", "--site", "marenostrum5", "-q", "debug", "--", "train.py", **given)
    assert done.exit_code == 0, done.output
    assert {"#SBATCH --account=bsc98", "#SBATCH --qos=debug", "#SBATCH --time=10"} <= set(done.stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["job"], "no module", id="nothing"),
        pytest.param(["job", "PyTorch", *LUMI], "no program", id="no program"),
        pytest.param(["job", "PyTorch", *LUMI, "--gpus", "9", "--", "t.py"], "has 8", id="too many GPUs"),
        pytest.param(["job", "PyTorch", *LUMI, "--node-type", "lumi-x", "--", "t.py"], "lumi-c", id="no such nodes"),
        pytest.param(["job", "PyTorch", *LUMI, "--stage", "nvme", "--", "t.py"], "has: ram", id="no such place"),
        pytest.param(["job", "PyTorch", *LUMI, "--", "torchrun", "t.py"], "--launcher torchrun", id="torchrun"),
        pytest.param(["job", "PyTorch", *LUMI, "-J", "a b", "--", "t.py"], "cannot stand", id="blank in an option"),
        pytest.param(["job", "PyTorch", *LUMI, "-p", "x\n#SBATCH -A y", "--", "t.py"], "cannot stand", id="line end"),
        pytest.param(["job", "PyTorch", *LUMI, "-N", "0", "--", "t.py"], "counted from 1", id="no nodes"),
        pytest.param(["job", "PyTorch", *LUMI, "-N", "3", "-n", "2", "--", "t.py"], "have none", id="too few ranks"),
        pytest.param(["job", *LUMI, "--", "t.py"], "t.py stands in its place", id="a program for a module"),
        pytest.param(["job", "PyTorch", *LUMI, "t.py", "--lr", "3"], "comes behind `--`", id="option of a program"),
        pytest.param(["job", "PyTorch", *LUMI, "--launcher", "mpirun", "--", "t.py"], "not one of 'srun'", id="mpirun"),
        pytest.param(["job", "PyTorch", *LUMI, "-o", "none/x.sh", "--", "t.py"], "no directory none", id="lost"),
        pytest.param(["job", "--lint"], "no batch script", id="lint of nothing"),
        pytest.param(["job", "--lint", "none.sh"], "none.sh", id="lint of what is not there"),
        pytest.param(["launch", "t.py", "--lr", "3"], "comes behind `--`", id="an option of a program to launch"),
        pytest.param(["launch", "--", "t.py"], "no allocation", id="launch outside an allocation"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_reason(arguments: list[str], said: str) -> None:
    done = hpcmod(*arguments)
    assert done.exit_code in (2, 3, 7)
    assert said in done.stderr


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
def test_a_launcher_that_the_machine_refuses_is_refused_with_its_reason(launcher: str) -> None:
    done = hpcmod("job", "P", "--site", "frontier", "-A", "x", "--launcher", launcher, "--", "t.py")
    assert done.exit_code == 2
    assert "10 minutes" in done.stderr


def test_the_other_launcher_of_that_machine_gets_gpus() -> None:
    script = hpcmod("job", "P", "--site", "frontier", "-A", "x", "--launcher", "deepspeed", "--", "t.py").stdout
    assert "--gpus-per-task=8" in script


def test_submitting_keeps_the_script_and_prints_the_number(sbatch: Path) -> None:
    done = hpcmod("job", "PyTorch", *LUMI, "--submit", "--", "train.py")
    assert (done.exit_code, done.stdout) == (0, "42\n")
    assert sbatch.read_text().splitlines() == ["--test-only", "--parsable train.sh"]
    assert "train.py" in Path("train.sh").read_text()


def test_what_slurm_would_not_run_is_not_submitted(sbatch: Path) -> None:
    done = hpcmod("job", "PyTorch", *LUMI, "--sbatch=--comment=broke", "--submit", "--", "train.py")
    assert done.exit_code == 1
    assert "Invalid account" in done.stderr
    assert sbatch.read_text().splitlines() == ["--test-only"]


def test_what_slurm_says_of_a_script_is_told(sbatch: Path) -> None:
    done = hpcmod("job", "PyTorch", "-A", "p", "--dry-run", "--", "train.py", HPCMOD_SITE="lumi")
    assert done.exit_code == 0
    assert "sbatch --test-only: Job 7 to start at" in done.stderr
    assert done.stdout.startswith("#!/bin/bash")


def test_for_another_machine_this_ones_slurm_is_not_asked(sbatch: Path) -> None:
    assert hpcmod("job", "PyTorch", *LUMI, "--", "train.py").exit_code == 0
    assert not sbatch.exists()


def test_the_file_is_named_after_the_job_and_stays_where_one_is(sbatch: Path) -> None:
    assert hpcmod("job", "PyTorch", *LUMI, "-J", "../a/b", "--submit", "--", "train.py").exit_code == 0
    assert Path(".._a_b.sh").exists()


def test_an_option_behind_the_program_is_told_whose_it_is(tmp_path: Path) -> None:
    assert "-t is not the program's" in hpcmod("job", "PyTorch", *LUMI, "t.py", "-t", "3").stderr
    assert hpcmod("job", "PyTorch", *LUMI, "--", "t.py", "-t", "3").stderr == ""
    assert hpcmod("job", "PyTorch", *LUMI, "-t", "3", "t.py").stderr == ""


def test_a_directory_for_output_that_is_not_there_is_told(sbatch: Path) -> None:
    asked = ["job", "PyTorch", "-A", "x", "--output", "logs/%j.out", "--dry-run", "--", "t.py"]
    assert "mkdir -p logs" in hpcmod(*asked).stderr
    Path("logs").mkdir()
    assert "mkdir" not in hpcmod(*asked).stderr


def test_dry_run_submits_nothing(sbatch: Path) -> None:
    done = hpcmod("job", "PyTorch", *LUMI, "--submit", "--dry-run", "--", "train.py")
    assert done.stdout.startswith("#!/bin/bash")
    assert not Path("train.sh").exists()
    assert not sbatch.exists()


def test_json_holds_the_script_and_the_plan(sbatch: Path) -> None:
    done = hpcmod("job", "PyTorch", *LUMI, "--json", "--submit", "--", "train.py")
    answer = json.loads(done.stdout)
    assert (answer["version"], answer["job"], answer["file"]) == (1, "42", "train.sh")
    assert answer["script"] == Path("train.sh").read_text()
    assert answer["plan"]["step"]["program"] == ["conda-python-distributed", "train.py"]


def test_salloc_is_printed_or_run() -> None:
    command = ["job", "PyTorch", "--site", "marenostrum5", "-A", "b", "-q", "q", "-t", "10", "--gpus", "2", "--salloc"]
    printed = hpcmod(*command).stdout.split()
    assert printed[0] == "salloc"
    assert {"--cpus-per-task=40", "--gres=gpu:2"} <= set(printed)
    ran = hpcmod(*command, "--submit")
    assert isinstance(ran.exception, TakenOverError)
    assert ran.exception.argv == printed


ALLOCATION = {
    "SLURM_JOB_ID": "1",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_PARTITION": "standard-g",
    "HPCMOD_SITE": "lumi",
}


def test_launch_runs_what_a_job_would_run() -> None:
    script = hpcmod("job", "P", *LUMI, "-N", "2", "--", "train.py", "a b").stdout
    printed = hpcmod("launch", "--dry-run", "--", "train.py", "a b", **ALLOCATION).stdout
    assert script.endswith(printed)
    ran = hpcmod("launch", "--", "train.py", "a b", SIF="/x y.sif", **ALLOCATION)
    assert isinstance(ran.exception, TakenOverError)
    assert ran.exception.argv[-4:] == ["/x y.sif", "conda-python-distributed", "train.py", "a b"]


def test_launch_takes_what_the_allocation_has() -> None:
    own = {"SLURM_JOB_PARTITION": "small-g", "SLURM_CPUS_PER_TASK": "5", "SLURM_NTASKS_PER_NODE": "2"}
    for gpus in ({"SLURM_GPUS_PER_NODE": "mi250:2"}, {"SLURM_GPUS_ON_NODE": "2"}, {"SLURM_GPUS": "mi250:4"}):
        printed = hpcmod("launch", "--dry-run", "--", "train.py", **{**ALLOCATION, **own, **gpus}).stdout
        assert "--ntasks-per-node=2 --cpus-per-task=5" in printed
        assert "mask_cpu" not in printed


@pytest.mark.parametrize(
    ("site", "own", "words", "said"),
    [
        pytest.param("lumi", {"SLURM_CPUS_PER_TASK": "7", "SLURM_NTASKS_PER_NODE": "8"}, ["--launcher", "torchrun"],
                     "--ntasks-per-node=1 --cpus-per-task=56", id="a launcher where there are tasks for ranks"),
        pytest.param("marenostrum5", {"SLURM_CPUS_PER_TASK": "40"}, ["--gpus", "2", "--launcher", "srun"],
                     "--ntasks-per-node=2 --cpus-per-task=20", id="ranks where there is a task for a launcher"),
    ],
)  # fmt: skip
def test_launch_shares_out_the_cpus_that_there_are(site: str, own: dict[str, str], words: list[str], said: str) -> None:
    printed = hpcmod("launch", "--dry-run", *words, "--", "t.py", **{**ALLOCATION, **own, "HPCMOD_SITE": site}).stdout
    assert said in printed


def test_launch_without_a_module_says_so() -> None:
    done = hpcmod("launch", "--", "train.py", **ALLOCATION)
    assert done.exit_code == 3
    assert "module load" in done.stderr


def test_lint_prints_line_rule_and_cure_and_exits_with_one() -> None:
    Path("a.sh").write_text("#!/bin/bash\nexport MASTER_PORT=29500\n")
    Path("b.sh").write_text("#!/bin/bash\nhostname\n")
    done = hpcmod("job", "--lint", "a.sh", "b.sh", "--site", "generic")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0].startswith("a.sh:2: fixed-port: port 29500")
    assert done.stdout.splitlines()[1].startswith("    ")
    assert hpcmod("job", "--lint", "b.sh", "--site", "generic").exit_code == 0


def test_lint_speaks_json() -> None:
    Path("a.sh").write_bytes(b"#!/bin/bash\r\n\xff\n")
    answer = json.loads(hpcmod("job", "--lint", "--json", "a.sh", "--site", "generic").stdout)
    assert answer["version"] == 1
    assert [fault["rule"] for fault in answer["files"][0]["faults"]] == ["line-end"]
