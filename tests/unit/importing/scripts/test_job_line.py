from __future__ import annotations

import pytest

from hpcmod.importing.carried import Findings
from hpcmod.importing.scripts.job_line import job_line, read_job_options
from hpcmod.importing.scripts.starts import StartScript
from tests.batch_scripts import script, step


def options(text: str) -> tuple[tuple[str, ...], Findings]:
    read, said = StartScript.read(text, {}), Findings()
    (start,) = read.starts()
    return read_job_options(read.script.options, start, said), said


@pytest.mark.parametrize(
    ("directives", "srun", "expected"),
    [
        ("-N 2 -n 16", "", ("-N", "2", "-n", "16")),
        ("-N 2 -n 16 --ntasks-per-node=8", "", ("-N", "2", "--ranks-per-node=8")),
        ("--gres=gpu", "", ("--gpus=1",)),
        ("--gres=gpu:a100:4", "--mpi=pmix", ("--gpus=4", "--mpi=pmix")),
        ("--gres=nvme:100", "", ("--sbatch=--gres=nvme:100",)),
        ("--hold", "", ("--sbatch=--hold",)),
    ],
)
def test_options_become_those_of_hpcmod_job(directives: str, srun: str, expected: tuple[str, ...]) -> None:
    found, said = options(script(directives=directives, srun=srun))
    assert (found, said.left_out, said.changed) == (expected, [], [])


def test_a_step_that_differs_from_the_job_is_reported() -> None:
    found, said = options(script(directives="-N 4", srun="-N 2"))
    assert found == ("-N", "2")
    assert said.changed == ["the option srun --nodes=2: the job asks for what this step uses, not for -N 4"]


def test_ranks_of_mpirun_are_carried() -> None:
    found, _ = options(step("mpirun -np 4 singularity exec docker://a/b:1 x"))
    assert found == ("-n", "4")


def test_the_line_is_quoted() -> None:
    line = job_line("a/1", ["-N", "2"], {"A": "x y"}, ["x", "$(y)"], ["b 'c'"])
    assert line == "hpcmod job a/1 -N 2 '--env=A=x y' '--then=b '\\''c'\\''' -- x '$(y)'"
