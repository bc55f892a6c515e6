"""`hpcmod job` and `hpcmod launch`: what they print, write, run and refuse."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

from hpcmod.compat import compat
from hpcmod.core import process
from hpcmod.core.values.facts import Provenance
from hpcmod.jobs.cli import job, launch
from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record
from tests.installations import install
from tests.programs import make_program

LUMI = ("--site", "lumi", "-A", "project_1")
FAKE_SBATCH = """#!/bin/bash
# A fake sbatch: records its arguments, and accepts every script except for an account called broke.
echo "$@" >>{log}
script=$(cat "${{!#}}" 2>/dev/null || cat)
[[ $script != *broke* ]] || {{ echo 'sbatch: error: Invalid account' >&2; exit 1; }}
[[ $* == *--test-only* ]] || {{ echo '42;virtual'; exit; }}
echo 'sbatch: Job 7 to start at 2026-11-21 using 16 processors on nodes nid001' >&2
"""


class TakenOverError(Exception):
    """Raised instead of replacing this process by another program."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__(" ".join(argv))
        self.argv = list(argv)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove Slurm from PATH, and change to a temporary directory."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)

    def become(argv: Sequence[str]) -> NoReturn:
        raise TakenOverError(argv)

    monkeypatch.setattr(process, "become", become)
    monkeypatch.setattr(launch, "become", become)


@pytest.fixture
def sbatch(tmp_path: Path) -> Path:
    """A fake sbatch on PATH; returns the file that it writes its arguments to."""
    program, log = tmp_path / "bin" / "sbatch", tmp_path / "log"
    program.parent.mkdir()
    make_program(program, FAKE_SBATCH.format(log=log).replace("cat", "/bin/cat"))
    return log


def test_the_script_goes_to_stdout_and_nothing_is_written(tmp_path: Path) -> None:
    done = hpcmod("job", "PyTorch", *LUMI, "--", "train.py")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("#!/bin/bash\n")
    assert "conda-python-distributed train.py\n" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_writes_only_the_file_and_writes_its_own_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = hpcmod("job", "PyTorch", *LUMI, "-o", "my.sh", "--", "train.py")
        assert (done.exit_code, done.stdout) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["my.sh"]
    edited = Path("my.sh").read_text() + "echo mine\n"
    Path("my.sh").write_text(edited)
    assert "the earlier one is my.sh~" in hpcmod("job", "PyTorch", *LUMI, "-o", "my.sh", "--", "train.py").stderr
    assert (Path("my.sh~").read_text(), "mine" in Path("my.sh").read_text()) == (edited, False)


def test_a_file_that_another_user_wrote_is_not_touched() -> None:
    Path("my.sh").write_text("precious\n")
    done = hpcmod("job", "PyTorch", *LUMI, "-o", "my.sh", "--", "train.py")
    assert done.exit_code == 2
    assert Path("my.sh").read_text() == "precious\n"


def test_everything_missing_is_reported_with_how_to_provide_it() -> None:
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
        pytest.param(["job", "PyTorch", *LUMI, "--gpus", "9", "--", "t.py"], "have 8", id="too many GPUs"),
        pytest.param(["job", "PyTorch", *LUMI, "--node-type", "lumi-x", "--", "t.py"], "lumi-c", id="no such nodes"),
        pytest.param(["job", "PyTorch", *LUMI, "--stage", "nvme", "--", "t.py"], "Available: ram", id="no such place"),
        pytest.param(["job", "PyTorch", *LUMI, "--", "torchrun", "t.py"], "--launcher torchrun", id="torchrun"),
        pytest.param(["job", "PyTorch", *LUMI, "-J", "a b", "--", "t.py"], "is not allowed", id="blank in an option"),
        pytest.param(["job", "PyTorch", *LUMI, "-p", "x\n#SBATCH -A y", "--", "t.py"], "is not allowed", id="line end"),
        pytest.param(["job", "PyTorch", *LUMI, "-N", "0", "--", "t.py"], "counted from 1", id="no nodes"),
        pytest.param(["job", *LUMI, "--", "t.py"], "t.py is in its place", id="a program for a module"),
        pytest.param(["job", "PyTorch", *LUMI, "t.py", "--lr", "3"], "put it after `--`", id="option of a program"),
        pytest.param(["job", "PyTorch", *LUMI, "--array", "3", "--", "t.py"], "--sbatch=--array=VALUE", id="sbatch's"),
        pytest.param(["job", "PyTorch", *LUMI, "--launcher", "mpirun", "--", "t.py"], "not one of 'srun'", id="mpirun"),
        pytest.param(["job", "PyTorch", *LUMI, "-o", "none/x.sh", "--", "t.py"], "none: no such directory", id="lost"),
        pytest.param(["launch", "t.py", "--lr", "3"], "put it after `--`", id="option of what is launched"),
        pytest.param(["launch", "--", "t.py"], "not inside a Slurm allocation", id="launch outside an allocation"),
    ],
)  # fmt: skip
def test_refuses_invalid_requests_with_the_reason(arguments: list[str], said: str) -> None:
    done = hpcmod(*arguments)
    assert done.exit_code in (2, 3, 7)
    assert said in done.stderr


@pytest.mark.parametrize("site", ["polaris", "tuolumne"])
@pytest.mark.parametrize(
    "words",
    [
        ("job", "PyTorch", "-o", "my.sh", "--", "t.py"),
        ("job", "PyTorch", "--salloc"),
        ("job", "--rerun", "old.sh"),
        ("launch", "--", "t.py"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_the_schedulers_of_other_machines_are_refused(words: tuple[str, ...], site: str, tmp_path: Path) -> None:
    done = hpcmod(words[0], "--site", site, *words[1:])
    assert done.exit_code == 7, done.output
    assert f"this machine's scheduler is {'PBS' if site == 'polaris' else 'Flux'} (site profile {site})" in done.stderr
    assert "singularity exec $SIF conda-python-distributed" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
def test_a_launcher_that_the_site_advises_against_comes_with_its_reason(launcher: str) -> None:
    done = hpcmod("job", "P", "--site", "frontier", "-A", "x", "--launcher", launcher, "--", "t.py")
    assert done.exit_code == 0
    assert f"{launcher} is not recommended here: " in done.stderr and "OLCF recommends srun" in done.stderr
    assert "--gpus-per-task=8" in done.stdout


def test_a_launcher_that_the_machine_refuses_is_refused_with_its_reason(tmp_path: Path) -> None:
    profile = tmp_path / "ours.toml"
    profile.write_text('name = "ours"\nextends = "generic"\n[launcher.refused]\ntorchrun = "10 minutes"\n')
    done = hpcmod("job", "P", "--site", str(profile), "--launcher", "torchrun", "--", "t.py")
    assert done.exit_code == 2
    assert "10 minutes" in done.stderr


SLURM = ("job", "PyTorch", *LUMI)


def test_options_of_sbatch_become_directives() -> None:
    asked = ("--error=%x-%j.err", "--chdir=/tmp", "--array=0-7%2", "--dependency=afterok:41?afterany:42", "-Jx")
    words = [word for option in asked for word in ("--sbatch", option)]
    lines = hpcmod(*SLURM, "-C", "big", *words, "--", "t.py").stdout.splitlines()
    assert {f"#SBATCH {option}" for option in ("--constraint=big", "--output=%x-%j.out", *asked)} <= set(lines)
    lines = hpcmod(*SLURM, "--sbatch=--output=a.log", "--", "t.py").stdout.splitlines()
    assert [line for line in lines if "--output" in line] == ["#SBATCH --output=a.log"]


def test_the_help_page_has_at_most_thirty_options_in_groups() -> None:
    shown = hpcmod("job", "--help").stdout
    options = re.findall(r"^  (-\S+)", shown, re.MULTILINE)
    assert len([option for option in options if option != "-h,"]) <= 30
    assert [line for line in shown.splitlines() if re.fullmatch(r"\S.*:", line)] == [
        *("Nodes and ranks:", "Slurm:", "Ranks and their containers:", "Copies on the nodes:"),
        *("What the script also does:", "Options:"),
    ]


def test_cpus_of_a_rank_are_those_asked_for_and_masks_would_not_fit() -> None:
    script = hpcmod(*SLURM, "--cpus", "3", "--", "t.py").stdout
    assert "#SBATCH --cpus-per-task=3\n" in script and "--cpus-per-task=3 " in script
    assert "mask_cpu" not in script
    assert hpcmod(*SLURM, "--cpus", "0", "--", "t.py").exit_code == 2


def test_the_network_of_the_profile_gives_way_to_the_user_s() -> None:
    assert "#SBATCH --network=single_node_vni\n" in hpcmod(*SLURM, "--", "t.py").stdout
    asked = hpcmod(*SLURM, "--sbatch=--network=def_acs", "--", "t.py").stdout
    assert "#SBATCH --network=def_acs\n" in asked and "vni" not in asked


@pytest.mark.parametrize(("mpi", "flag"), [("Open MPI 5", "pmix"), ("MPICH", "pmi2"), ("", "pmix")])
def test_mpi_follows_what_the_image_needs(monkeypatch: pytest.MonkeyPatch, mpi: str, flag: str) -> None:
    monkeypatch.setattr(job, "_find_mpi", lambda *_: mpi)
    assert f" --mpi={flag} " in hpcmod("job", "P", "--site", "cray-ex-gh200", "--", "t.py").stdout
    under_pmi2 = hpcmod("job", "P", "--site", "cray-ex-gh200", "--mpi", "pmi2", "--", "t.py")
    assert (under_pmi2.exit_code == 2 and "rank 0 of 1" in under_pmi2.stderr) == (mpi == "Open MPI 5")


def test_launch_asks_for_what_the_loaded_image_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "read_image_mpi", lambda *_: "MPICH")
    cray = ("launch", "--dry-run", "--site", "cray-ex-gh200")
    assert " --mpi=pmi2 " in hpcmod(*cray, "--", "t.py", SIF="/a.sif", **ALLOCATION).stdout
    assert " --mpi=pmix " in hpcmod(*cray, "--mpi", "pmix", "--", "t.py", SIF="/a.sif", **ALLOCATION).stdout


def test_variables_reach_the_ranks_even_if_the_image_sets_them() -> None:
    script = hpcmod(*SLURM, "--env", "NCCL_ALGO=Tree", "--env", "LD_LIBRARY_PATH=/a b", "--", "t.py").stdout
    assert "export NCCL_ALGO=Tree APPTAINERENV_NCCL_ALGO=Tree SINGULARITYENV_NCCL_ALGO=Tree\n" in script
    assert "export APPTAINERENV_LD_LIBRARY_PATH='/a b' SINGULARITYENV_LD_LIBRARY_PATH='/a b'\n" in script
    for wrong in ("NCCL_ALGO", "A-B=1", "=1"):
        assert hpcmod(*SLURM, "--env", wrong, "--", "t.py").exit_code == 2
    done = hpcmod(*SLURM, "--salloc", "--env", "A=1")
    assert (done.exit_code, done.stdout) == (2, "") and "export the variables" in done.stderr
    done = hpcmod(*SLURM, "--salloc", "--stage-data", "a.tar", "--", "t.py")
    assert done.exit_code == 2 and "for --stage-data, a program" in done.stderr


def test_the_quality_of_service_tells_the_kind_of_node() -> None:
    asked = ("job", "P", "--site", "marenostrum5", "-A", "b", "-t", "60")
    script = hpcmod(*asked, "-q", "gp_debug", "--", "t.py").stdout
    assert "(gpp)" in script and "--gres" not in script and "--nv" not in script
    assert "#SBATCH --gres=gpu:4\n" in hpcmod(*asked, "-q", "acc_debug", "--", "t.py").stdout


def test_an_allocation_needs_no_module() -> None:
    done = hpcmod(
        "job", "--site", "marenostrum5", "--node-type", "gpp", "-A", "b", "-q", "gp_debug", "-t", "60", "--salloc"
    )
    assert done.stdout.split()[0] == "salloc" and "--cpus-per-task=112" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--ranks-per-node", "4", "--", "t.py"), "4 GPUs of each node stay idle", id="idle GPUs"),
        pytest.param(("--ranks-per-node", "7", "--", "t.py"), "1 GPU of each node stays idle", id="one idle GPU"),
        pytest.param(("--ranks-per-node", "16", "--", "t.py"), "16 ranks share 8 GPUs", id="shared GPUs"),
        pytest.param(
            ("--", "bash", "-c", "python prep.py && python t.py"),
            "none of them knows its rank",
            id="Python that a shell starts",
        ),
        pytest.param(("--requeue-on", "USR1@400", "-t", "5", "--", "t.py"), "when the job starts", id="a late signal"),
    ],
)
def test_reports_unusual_requests_before_the_queue(arguments: tuple[str, ...], said: str) -> None:
    done = hpcmod(*SLURM, *arguments)
    assert done.exit_code == 0, done.output
    assert said in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--ranks-per-node", "1", "--", "t.py"), id="one rank sees all GPUs"),
        pytest.param(("--gpus", "4", "--", "t.py"), id="as many ranks as GPUs"),
        pytest.param(("--", "bash", "-c", "conda-python-distributed t.py"), id="the run script"),
        pytest.param(("--ranks-per-node", "1", "--", "bash", "-c", "python t.py"), id="a single task"),
    ],
)
def test_an_unremarkable_job_prints_nothing(arguments: tuple[str, ...]) -> None:
    assert hpcmod(*SLURM, *arguments).stderr == ""


@pytest.mark.parametrize(
    "program",
    [
        ("-m", "torch.distributed.run", "--nproc_per_node", "8", "t.py"),
        ("python", "-u", "-m", "torch.distributed.launch", "t.py"),
        ("-m", "accelerate.commands.launch", "t.py"),
        ("/opt/conda/bin/torchrun", "t.py"),
    ],
)
def test_a_launcher_instead_of_the_program_is_refused(program: tuple[str, ...]) -> None:
    done = hpcmod(*SLURM, "--", *program)
    assert done.exit_code == 2
    assert "--launcher" in done.stderr
    assert hpcmod(*SLURM, "--", "t.py", "-m", "torch.distributed.run").exit_code == 0


def test_a_machine_of_unknown_gpus_is_not_mistaken_for_one_without() -> None:
    unknown = hpcmod("job", "P", "--site", "generic-nvidia", "--", "t.py")
    assert unknown.exit_code == 2 and "--gpus 4" in unknown.stderr
    assert (
        "singularity exec --nv " in hpcmod("job", "P", "--site", "generic-nvidia", "--gpus", "4", "--", "t.py").stdout
    )
    assert "--nv" not in hpcmod("job", "P", "--site", "generic-nvidia", "--gpus", "0", "--", "t.py").stdout


def test_submitting_keeps_the_script_and_prints_the_number(sbatch: Path) -> None:
    done = hpcmod("job", "PyTorch", *LUMI, "--submit", "-t", "7", "--", "train.py", SBATCH_TIMELIMIT="9")
    assert (done.exit_code, done.stdout) == (0, "42\n")
    given = "--account=project_1 --time=7"  # on the command line, as sbatch prefers its variables to a script's lines
    assert sbatch.read_text().splitlines() == [f"--test-only {given}", f"--parsable {given} train.sh"]
    assert "train.py" in Path("train.sh").read_text()


def test_a_script_that_slurm_would_refuse_is_not_submitted(sbatch: Path) -> None:
    done = hpcmod("job", "PyTorch", *LUMI, "--sbatch=--comment=broke", "--submit", "--", "train.py")
    assert done.exit_code == 1 and "Invalid account" in done.stderr
    assert "Not submitted. Change what the job asks for: --" in done.stderr and " --comment=broke" in done.stderr
    assert sbatch.read_text().splitlines() == ["--test-only --account=project_1"]


@pytest.mark.parametrize(
    "said",
    [
        "allocation failure: Unable to contact slurm controller (connect failure)",
        "fetch_config: DNS SRV lookup failed\nsbatch: fatal: Could not establish a configuration source",
    ],
)
def test_a_slurm_that_does_not_answer_is_not_a_fault_of_the_job(sbatch: Path, said: str) -> None:
    (sbatch.parent / "bin" / "sbatch").write_text(
        f"#!/bin/sh\n/bin/cat >&2 <<'END'\nsbatch: error: {said}\nEND\nexit 1\n"
    )
    done = hpcmod("job", "PyTorch", *LUMI, "--submit", "--", "train.py")
    assert done.exit_code == 7
    assert "Slurm does not answer" in done.stderr and "nothing was submitted" in done.stderr


def test_slurms_opinion_of_a_script_is_reported(sbatch: Path) -> None:
    done = hpcmod("job", "PyTorch", "-A", "p", "--dry-run", "--", "train.py", HPCMOD_SITE="lumi")
    assert done.exit_code == 0
    assert "sbatch --test-only: would start at" in done.stderr
    assert done.stdout.startswith("#!/bin/bash")


def test_for_another_machine_this_ones_slurm_is_not_asked(sbatch: Path) -> None:
    assert hpcmod("job", "PyTorch", *LUMI, "--", "train.py").exit_code == 0
    assert not sbatch.exists()


def test_the_file_is_named_after_the_job_and_an_existing_one_is_kept(sbatch: Path) -> None:
    assert hpcmod("job", "PyTorch", *LUMI, "-J", "../a/b", "--submit", "--", "train.py").exit_code == 0
    assert Path(".._a_b.sh").exists()


def test_an_option_after_the_program_is_explained(tmp_path: Path) -> None:
    assert "-t is taken as an option of hpcmod" in hpcmod("job", "PyTorch", *LUMI, "t.py", "-t", "3").stderr
    assert hpcmod("job", "PyTorch", *LUMI, "--", "t.py", "-t", "3").stderr == ""
    assert hpcmod("job", "PyTorch", *LUMI, "-t", "3", "t.py").stderr == ""


def test_a_missing_output_directory_is_reported(sbatch: Path) -> None:
    asked = ["job", "PyTorch", "-A", "x", "--sbatch=--output=logs/%j.out", "--dry-run", "--", "t.py"]
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
        pytest.param("generic", {"SLURM_NTASKS": "4"}, [], " --nodes=2 --ntasks-per-node=2 ", id="tasks without GPUs"),
        pytest.param("generic", {"SLURM_NTASKS": "4"}, ["--ranks-per-node", "3"], "srun --ntasks=6 ", id="more tasks"),
        pytest.param("lumi", {"SLURM_NTASKS": "2"}, [], "srun --ntasks=16 ", id="tasks for launchers, ranks for GPUs"),
    ],
)  # fmt: skip
def test_launch_shares_out_the_cpus_that_there_are(site: str, own: dict[str, str], words: list[str], said: str) -> None:
    printed = hpcmod("launch", "--dry-run", *words, "--", "t.py", **{**ALLOCATION, **own, "HPCMOD_SITE": site}).stdout
    assert said in printed


def test_launch_without_a_module_says_so() -> None:
    done = hpcmod("launch", "--", "train.py", **ALLOCATION)
    assert done.exit_code == 3
    assert "module load" in done.stderr


def test_a_launch_inside_a_step_shares_its_resources(tmp_path: Path) -> None:
    allocation = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SIF": "/x.sif"}
    for step, shared in (("0", True), ("4294967290", False), ("4294967291", False), ("", False)):
        done = hpcmod("launch", "--site", "generic", "--dry-run", "--", "t.py", **allocation, SLURM_STEP_ID=step)
        assert done.exit_code == 0, done.output
        found = ("srun --overlap --ntasks=1 " in done.stdout, "inside an srun step" in done.stderr)
        assert found == (shared, shared)


def test_a_job_that_is_requeued_says_so_to_slurm() -> None:
    done = hpcmod("job", "P", *LUMI, "--requeue-on", "USR1@120", "--", "t.py")
    assert "#SBATCH --signal=B:USR1@120\n" in done.stdout and "#SBATCH --requeue\n" in done.stdout
    assert "run srun " in done.stdout and "at most 10 times" in " ".join(done.stdout.split())
    lost = hpcmod("job", "P", *LUMI, "--sbatch=--signal=B:USR1@120", "--", "t.py")
    assert lost.exit_code == 2 and "Write --requeue-on USR1@120" in lost.output


@pytest.mark.slow
def test_writing_a_script_imports_nothing_that_reads_images_or_scripts(tmp_path: Path) -> None:
    program = f"""
import sys
from hpcmod.core.cli.main import main
try:
    main({["job", *LUMI, "PyTorch", "--dry-run", "--", "train.py"]})
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    ours = "compat.compat lint.jobs images.inspect.contents modules.values.plan jobs.values.cluster jobs.values.facts"
    heavy = {"requests", "easybuild", *(f"hpcmod.{name}" for name in ours.split())}
    assert all(map(find_spec, heavy - {"hpcmod.lint.jobs"}))  # lint is a leaf, which may be gone
    assert heavy & set(done.stderr.split()) == set()


def test_launch_says_what_to_type_instead_of_the_name_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "PyTorch/2.7")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    for name in ("PyTorch", "PyTorch/2.7"):
        done = hpcmod("launch", name, "--launcher", "accelerate", "--", "x.py", "--lr", "3")
        assert done.exit_code == 2
        assert f"module load {name}; hpcmod launch [OPTIONS] -- x.py --lr 3" in done.stderr


def test_no_job_is_written_for_a_container_that_no_longer_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module tool knows its name, to tell what to load instead."""
    catalogue = make_catalogue(tmp_path, make_record("Toy/1.0", state="retired", successor="Toy/2.0"))
    stub = catalogue.modules / "Toy/1.0.lua"
    stub.parent.mkdir(parents=True)
    stub.touch()
    monkeypatch.setattr("hpcmod.jobs.cli.module.find_modulefile", lambda *_: stub)
    monkeypatch.setattr("hpcmod.jobs.cli.module.module_name", lambda *_: "Toy/1.0")
    done = hpcmod("job", "Toy/1.0", "--", "t.py", HPCMOD_CATALOGUE=str(catalogue.directory), HPCMOD_SITE="generic")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "Toy/1.0 is retired" in done.stderr and "hpcmod job Toy/2.0 ..." in done.stderr


def test_a_script_says_what_its_image_was_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "PyTorch/2.7")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    path, digest = tmp_path / "software/PyTorch/2.7/record.json", f"sha256:{'1' * 64}"
    record = json.loads(path.read_text())
    record["image"]["sha256"] = "5" * 64
    known = Provenance("docker://h.io/x:1", digest, "5" * 64, 4, "", "")
    for provenance, said in (
        (asdict(known), f", built from docker://h.io/x:1@{digest}\n"),
        (None, f"sha256 {'5' * 64}\n"),
    ):
        path.write_text(json.dumps({**record, "provenance": provenance}))
        assert said in hpcmod("job", "PyTorch", "--", "t.py", HPCMOD_SITE="generic").stdout
