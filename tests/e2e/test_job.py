"""`hpcmod job --submit` and `hpcmod launch` on real Slurm, in real containers. GPUs are stand-ins that do nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import MEET, Jobs, equal_shares, must, places
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

DDP = CHECKOUT / "tests" / "e2e" / "ddp.py"
ALL_REDUCE = CHECKOUT / "tests" / "e2e" / "allreduce.py"
SHARED = ("-p", "small-g", "--gpus", "2")
"""Half-used nodes: other jobs may run beside this one."""


def program(jobs: Jobs, source: Path, name: str = "train.py") -> str:
    shutil.copy(source, jobs.directory / name)
    return name


def test_eight_ranks_on_four_nodes_train_while_three_and_one_on_two_of_them_reduce(torch_jobs: Jobs) -> None:
    eight = torch_jobs.submit("-N", "4", *SHARED, "-J", "eight", "--", program(torch_jobs, DDP))
    reduce = program(torch_jobs, ALL_REDUCE, "reduce.py")  # its import takes half the time
    uneven = torch_jobs.submit("-N", "2", "-n", "4", *SHARED, "-J", "uneven", "--", reduce)
    torch_jobs.wait(eight, uneven)
    ranks = torch_jobs.ranks(eight)
    assert places(ranks) == equal_shares(4, 2)
    assert {rank["total"] for rank in ranks} == {28} and all(rank["equal"] for rank in ranks)
    others = torch_jobs.ranks(uneven)
    first, second = others[0]["host"], others[3]["host"]
    assert places(others) == [*(f"{local % 2} 4 3 0 {first}" for local in range(3)), f"0 4 1 1 {second}"]
    assert {rank["total"] for rank in others} == {6}


def test_two_steps_of_one_allocation_do_not_meet(tiny_jobs: Jobs) -> None:
    program(tiny_jobs, MEET)
    step = "GROUP=$group hpcmod launch --gpus 1 --ranks-per-node 1 -- train.py 0.5"
    script = tiny_jobs.directory / "two.sh"
    script.write_text(f"#!/bin/bash\nmodule load PyTorch\nfor group in a b; do\n{step} &\ndone\nwait\n")
    words = ("--output=two-%j.out", "-N2", "--ntasks-per-node=1", "-p", "small-g", "--gpus-per-node=1")
    number = must(tiny_jobs("sbatch", "--parsable", "--overcommit", *words, script)).stdout.strip()
    tiny_jobs.wait(number)
    ranks = tiny_jobs.ranks(number)
    assert sorted((rank["group"], rank["RANK"]) for rank in ranks) == [("a", "0"), ("a", "1"), ("b", "0"), ("b", "1")]
    assert {rank["total"] for rank in ranks} == {1}
    assert len({rank["MASTER_PORT"] for rank in ranks}) == 2


def test_programs_of_one_script_run_one_after_the_other_with_the_users_variables(tiny_jobs: Jobs) -> None:
    (tiny_jobs.directory / "say.py").write_text("import os, sys; print(sys.argv[1], os.environ['GROUP'], flush=True)\n")
    steps = ("--before", "say.py first", "--then", "say.py last")
    number = tiny_jobs.submit("-N", "2", *SHARED, "--env", "GROUP=a b", *steps, "--", "say.py", "ranks")
    tiny_jobs.wait(number)
    assert tiny_jobs.state(number) == "COMPLETED"
    said = [line for line in tiny_jobs.output(number).splitlines() if line.endswith(" a b")]
    assert said == ["first a b", *["ranks a b"] * 4, *["last a b"] * 4]


def test_a_program_that_fails_ends_the_script(tiny_jobs: Jobs) -> None:
    number = tiny_jobs.submit("-N", "1", *SHARED, "--before", "-c 'raise SystemExit(4)'", "--", "-c", "print('ranks')")
    tiny_jobs.wait(number)
    assert tiny_jobs.state(number) == "FAILED"
    assert "ranks" not in tiny_jobs.output(number)


def test_a_rank_that_fails_fails_the_job(tiny_jobs: Jobs) -> None:
    (tiny_jobs.directory / "train.py").write_text(
        "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(60)\n"
    )
    number = tiny_jobs.submit("-N", "2", *SHARED, "--", "train.py")
    tiny_jobs.wait(number)
    assert tiny_jobs.state(number) == "FAILED"


def test_slurm_says_before_what_cannot_run(tiny_jobs: Jobs) -> None:
    hpcmod = tiny_jobs.machine.stack.python.parent / "hpcmod"
    done = tiny_jobs(hpcmod, "job", "PyTorch", "-N", "9", "--submit", "--", "train.py")
    assert done.returncode == 1
    assert "Slurm would not run it" in done.stderr
    assert "to start at" in tiny_jobs.hpcmod("job", "PyTorch", "-N", "4", "--dry-run", "--", "train.py").stderr


def test_an_allocation_by_salloc_runs_a_launch(tiny_jobs: Jobs) -> None:
    program(tiny_jobs, MEET)
    words = ("job", "PyTorch", "-N", "2", "-p", "small-g", "--gpus", "2", "-t", "5", "--salloc")
    salloc = tiny_jobs.hpcmod(*words).stdout.split()
    inside = "module load PyTorch && hpcmod launch -- train.py 0"
    done = must(tiny_jobs(*salloc, "bash", "-c", inside))
    assert done.stdout.count('"total": 6') == 4


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        pytest.param("hostname\n", False, id="no-shebang"),
        pytest.param("#!/bin/bash\n#SBATCH --nodes=1\r\nhostname\r\n", False, id="line-end"),
        pytest.param("#!/bin/bash\n#SBATCH --nodes = 1\nhostname\n", False, id="misplaced-equals"),
        pytest.param("#!/bin/bash\n#SBATCH -N=1\nhostname\n", False, id="misplaced-equals, of a letter"),
        pytest.param("#!/bin/bash\n#SBATCH --nodes=9\nhostname\n", False, id="more nodes than there are"),
        pytest.param("#!/bin/bash\nhostname\n#SBATCH --nodes=9\n", True, id="late-directive"),
        pytest.param("#!/bin/bash\n# SBATCH --nodes=9\nhostname\n", True, id="misspelt-directive"),
        pytest.param("#!/bin/bash\n #SBATCH --nodes=9\nhostname\n", True, id="misspelt-directive, indented"),
        pytest.param("#!/bin/bash\n#SBATCH--nodes=9\nhostname\n", False, id="no blank, which is none"),
    ],
)
def test_sbatch_does_with_a_mistake_what_its_rule_says(tiny_jobs: Jobs, text: str, runs: bool) -> None:
    (tiny_jobs.directory / "job.sh").write_bytes(text.encode())
    assert (tiny_jobs("sbatch", "--test-only", "job.sh").returncode == 0) is runs
