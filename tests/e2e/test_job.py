"""`hpcmod job --submit` and `hpcmod launch` with real Slurm and real containers; GPUs are stand-ins that do nothing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import MEET, Jobs, must, places
from tests.walkthroughs import blocks
from tests.wheels import make_wheel

pytestmark = pytest.mark.stack

SHARED = ("-p", "small-g", "--gpus", "2")
"""Partially used nodes, on which other jobs can run at the same time."""


def program(jobs: Jobs, source: Path, name: str = "train.py") -> str:
    shutil.copy(source, jobs.directory / name)
    return name


IMPORT = """import einops, json, os
told = {"found": einops.__file__, "version": einops.version}
told |= {"host": os.environ["SLURMD_NODENAME"], "RANK": os.environ["RANK"]}
print(json.dumps(told) + chr(10), end="")  # in one piece: all ranks of a node share a pipe
"""


def test_packages_of_a_user_are_on_all_nodes_of_the_jobs_that_choose_them(tiny_jobs: Jobs) -> None:
    """Run two jobs at the same time on the same nodes, each with a different state of the packages."""
    own = {"HPCMOD_PACKAGES_DIR": str(tiny_jobs.directory)}
    for version in ("0.8.0", "0.8.1"):
        make_wheel(tiny_jobs.directory / "wheels", "einops", version)
        tiny_jobs.hpcmod("add", "PyTorch", f"einops=={version}", "--wheel-dir", "wheels", "--no-index", **own)
    (tiny_jobs.directory / "train.py").write_text(IMPORT)
    words = ("-N", "2", *SHARED, "--", "train.py")
    jobs = {
        tiny_jobs.submit(*words, **own, HPCMOD_PACKAGES=chosen): version
        for chosen, version in (("default@1", "0.8.0"), ("default", "0.8.1"))
    }
    tiny_jobs.wait(*jobs)
    for job, version in jobs.items():
        ranks = tiny_jobs.ranks(job)
        assert len({rank["host"] for rank in ranks}) == 2 and [rank["version"] for rank in ranks] == [version] * 4
        inside = r"/user-software/venv/[^/]+/lib/python3[^/]+/site-packages/einops.py"
        assert all(re.fullmatch(inside, rank["found"]) for rank in ranks)


MPI = """import os
from mpi4py import MPI
w = MPI.COMM_WORLD
print(f'rank {w.rank} of {w.size}: {w.allreduce(1)} {os.getenv("MPIR_CVAR_CH4_CMA_ENABLE")}', flush=True)
"""


def test_mpi_that_a_user_added_decides_how_ranks_connect_and_without_it_they_are_told(tiny_jobs: Jobs) -> None:
    (tiny_jobs.directory / "mpi.py").write_text(MPI)
    own = {"HPCMOD_PACKAGES_DIR": str(tiny_jobs.directory / "own")}
    wheels = str(tiny_jobs.machine.stack.wheels)
    tiny_jobs.hpcmod("add", "PyTorch", "mpi4py", "mpich", "--wheel-dir", wheels, "--no-index", **own)
    job = ("-N", "2", "-p", "small", "--ranks-per-node", "2", "--gpus", "0", "--node-type", "lumi-c", "--cpus", "1")
    script = tiny_jobs.hpcmod("job", "PyTorch", "-t", "5", *job, "--", "mpi.py", **own).stdout
    assert " --mpi=pmi2 " in script
    for name, text in (("right", script), ("wrong", script.replace(" --mpi=pmi2", ""))):
        (tiny_jobs.directory / f"{name}.sh").write_text(text)
        must(tiny_jobs("sbatch", "-W", f"--output={name}.out", f"{name}.sh", **own))
    right, wrong = ((tiny_jobs.directory / f"{name}.out").read_text() for name in ("right", "wrong"))
    assert sorted(line for line in right.splitlines() if "rank" in line) == [
        f"rank {rank} of 4: 4 0" for rank in range(4)
    ]
    assert wrong.count("rank 0 of 1: 1 None") == 4 and wrong.count("mpi.py uses MPI, which gets no PMI from srun") == 1
    done = tiny_jobs(tiny_jobs.machine.stack.python.parent / "hpcmod", "why", "wrong.out")
    assert (done.returncode, "each rank ran as an MPI program of its own" in done.stdout) == (1, True)


def test_a_script_runs_in_a_bare_shell(tiny_jobs: Jobs) -> None:
    program(tiny_jobs, MEET)
    lmod = {"LMOD_CMD": str(tiny_jobs.machine.stack.lmod_cmd)}
    words = ("-N", "2", *SHARED, "-o", "meet.sh", "--env", "GROUP=a&b", "--", "train.py", "0")
    first = tiny_jobs.submit(*words, **lmod)
    script = (tiny_jobs.directory / "meet.sh").read_text()
    assert f"module use {tiny_jobs.modules}\n" in script
    assert re.search(r"^module load PyTorch/\S+ \|\| exit$", script, re.MULTILINE)
    assert re.search(r"^# Image: sha256 [0-9a-f]{64}", script, re.MULTILINE)
    knows_nothing = {"MODULEPATH": "", "BASH_ENV": "", "LMOD_CMD": ""}
    alone = must(tiny_jobs("sbatch", "--parsable", "--export=NONE", "meet.sh", **knows_nothing)).stdout.strip()
    tiny_jobs.wait(first, alone)
    for number in (first, alone):
        ranks = tiny_jobs.ranks(number)
        assert len(places(ranks)) == 4 and {(rank["total"], rank["group"]) for rank in ranks} == {(6, "a&b")}


def test_refuses_a_job_with_missing_files_before_the_queue(tiny_jobs: Jobs) -> None:
    program(tiny_jobs, MEET)
    hpcmod = tiny_jobs.machine.stack.python.parent / "hpcmod"
    asked = ("-t", "5", *SHARED, "--submit")
    done = tiny_jobs(hpcmod, "job", "PyTorch", *asked, "--", "nope")  # tests/unit/jobs/test_needs.py has more
    assert (done.returncode, "command nope not found" in done.stderr) == (3, True), done.stderr
    assert not must(tiny_jobs("squeue", "-h")).stdout.strip()


def test_a_job_is_not_run_again_with_another_image(tiny_jobs: Jobs) -> None:
    program(tiny_jobs, MEET)
    tiny_jobs.hpcmod("job", "PyTorch", *SHARED, "-o", "old.sh", "--", "train.py", "0")
    script = tiny_jobs.directory / "old.sh"
    script.write_text(re.sub(r"sha256 [0-9a-f]{64}", f"sha256 {'0' * 64}", script.read_text()))
    hpcmod = tiny_jobs.machine.stack.python.parent / "hpcmod"
    done = tiny_jobs(hpcmod, "job", "--rerun", "old.sh", "--submit")
    assert (done.returncode, "has a different image" in done.stderr) == (4, True), done.stderr
    for name, status in (("nope.sh", 3), ("999999", 3), ("train.py", 2)):
        assert tiny_jobs(hpcmod, "job", "--rerun", name).returncode == status


def test_a_rank_that_fails_fails_the_job(tiny_jobs: Jobs) -> None:
    (tiny_jobs.directory / "train.py").write_text(
        "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(60)\n"
    )
    number = tiny_jobs.submit("-N", "2", *SHARED, "--", "train.py")
    tiny_jobs.wait(number)
    assert tiny_jobs.state(number) == "FAILED"


def test_slurm_is_asked_in_advance_whether_the_job_can_run(tiny_jobs: Jobs) -> None:
    hpcmod = tiny_jobs.machine.stack.python.parent / "hpcmod"
    done = tiny_jobs(hpcmod, "job", "PyTorch", "-N", "9", "--submit", "--", "train.py")
    assert done.returncode == 1
    assert "Slurm would not run it" in done.stderr
    assert "would start at" in tiny_jobs.hpcmod("job", "PyTorch", "-N", "4", "--dry-run", "--", "train.py").stderr


def test_an_allocation_by_salloc_runs_a_launch(tiny_jobs: Jobs) -> None:
    program(tiny_jobs, MEET)
    words = ("job", "PyTorch", "-N", "2", "-p", "small-g", "--gpus", "2", "-t", "5", "--salloc")
    salloc = tiny_jobs.hpcmod(*words).stdout.split()
    inside = "module load PyTorch && hpcmod launch -- train.py 0"
    done = must(tiny_jobs(*salloc, "bash", "-c", inside))
    assert done.stdout.count('"total": 6') == 4


MISTAKES = {
    "no-shebang": ("hostname\n", False),
    "line-end": ("#!/bin/bash\n#SBATCH --nodes=1\r\nhostname\r\n", False),
    "misplaced-equals": ("#!/bin/bash\n#SBATCH --nodes = 1\nhostname\n", False),
    "misplaced-equals, of a letter": ("#!/bin/bash\n#SBATCH -N=1\nhostname\n", False),
    "more nodes than there are": ("#!/bin/bash\n#SBATCH --nodes=9\nhostname\n", False),
    "late-directive": ("#!/bin/bash\nhostname\n#SBATCH --nodes=9\n", True),
    "misspelt-directive": ("#!/bin/bash\n# SBATCH --nodes=9\nhostname\n", True),
    "misspelt-directive, indented": ("#!/bin/bash\n #SBATCH --nodes=9\nhostname\n", True),
    "no blank, which is none": ("#!/bin/bash\n#SBATCH--nodes=9\nhostname\n", False),
}
"""By the rules of `hpcmod job` and `lint` that name them: batch scripts, and whether sbatch takes them."""


def test_sbatch_does_with_a_mistake_what_its_rule_says(tiny_jobs: Jobs) -> None:
    for name, (text, _) in MISTAKES.items():
        (tiny_jobs.directory / f"{name}.mistake").write_bytes(text.encode())
    try_all = 'for file in *.mistake; do ! sbatch --test-only "$file" 2>/dev/null || echo "${file%.mistake}"; done'
    taken = must(tiny_jobs("bash", "-c", try_all)).stdout.splitlines()
    assert sorted(taken) == sorted(name for name, (_, runs) in MISTAKES.items() if runs)


def commands_of(page: str) -> list[str]:
    """Return the commands of a how-to page, in order."""
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [line.strip()[2:] for line in lines if line.strip().startswith("$ ")]


def test_the_page_on_running_a_job_again_works_as_written(tiny_jobs: Jobs) -> None:
    (tiny_jobs.directory / "train.py").write_text("print('trained')\n")
    first, check, again, by_number, export, unpack, install, from_copy = commands_of("rerun")
    path = f"PATH={tiny_jobs.machine.stack.python.parent}:$PATH EASYBUILD_PREFIX=$PWD/own"
    first = first.replace("-N 2", "-N 2 --ranks-per-node 1")
    number = must(tiny_jobs("bash", "-c", f"{path} {first}")).stdout.strip()
    script = tiny_jobs.directory / "train.sh"
    assert must(tiny_jobs("bash", "-c", f"{path} {check}")).stdout == script.read_text()
    second = must(tiny_jobs("bash", "-c", f"{path} {again} -J again")).stdout.strip()
    third = must(tiny_jobs("bash", "-c", f"{path} {by_number.replace('4711', number)}")).stdout.strip()
    (easyconfig,) = tiny_jobs.site.parent.glob("*.eb")  # not published, so the bundle is made of it
    shutil.copy(easyconfig, tiny_jobs.directory)
    (tiny_jobs.directory / "tiny.sif").symlink_to(tiny_jobs.machine.stack.tiny_sif)
    export = export.replace(" PyTorch", f" {easyconfig.name}")
    must(tiny_jobs("bash", "-c", f"{path} {export} && {path} {unpack}"))
    path += " MODULEPATH=$PWD/own/modules/all"  # the other copy is this user's, too
    must(tiny_jobs("bash", "-c", f"{path} {install.rpartition('/')[0]}/{easyconfig.name}"))
    script.write_text(script.read_text().replace(f"module use {tiny_jobs.modules}", "module use /gone"))
    fourth = must(tiny_jobs("bash", "-c", f"{path} {from_copy}")).stdout.strip()
    tiny_jobs.wait(number, second, third, fourth)
    for one in (number, second, third, fourth):
        assert "trained" in tiny_jobs.output(one)
    assert "JobName=again" in must(tiny_jobs("scontrol", "show", "job", second)).stdout
    assert f"module use {tiny_jobs.directory}/own/" in (tiny_jobs.directory / "again.sh").read_text()


def test_the_page_on_a_shell_on_a_node_works_as_written(tiny_jobs: Jobs) -> None:
    load, shell, salloc, *_, join = commands_of("node-shell")
    assert [line.rpartition(" --pty ")[2] for line in (shell, join)] == ["start-shell"] * 2
    tells = "-c 'echo $SLURMD_NODENAME; test -d /.singularity.d && echo inside'"
    path = f"PATH={tiny_jobs.machine.stack.python.parent}:$PATH"
    said = must(tiny_jobs("bash", "-c", f"{load} && {shell} {tells}")).stdout.split()
    assert said[0].startswith("nid") and said[1] == "inside"
    assert must(tiny_jobs("bash", "-c", f"{path} {salloc}")).stdout.startswith("salloc ")
    (tiny_jobs.directory / "train.py").write_text("import time\ntime.sleep(60)\n")
    number = tiny_jobs.submit(*SHARED, "--", "train.py")
    must(tiny_jobs("bash", "-c", f"until squeue -h -t R -j {number} | grep -q .; do sleep 0.2; done"))
    said = must(tiny_jobs("bash", "-c", f"{load} && {join.replace('4711', number)} {tells}")).stdout.split()
    assert said[0].startswith("nid") and said[1] == "inside"
    must(tiny_jobs("scancel", number))
