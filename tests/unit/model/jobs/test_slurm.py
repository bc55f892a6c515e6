"""Slurm's options and directives for scripts and steps, and the environment of a job."""

from __future__ import annotations

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.jobs.requeue import Requeue
from hpcmod.model.jobs.scheduler import Allocation, Amount, Directive, JobNeeds, JobPlace, Placement
from hpcmod.model.jobs.slurm import Slurm

SLURM = Slurm()
NEEDS = JobNeeds(
    name="train",
    options=(("account", "a"), ("qos", "")),
    nodes=2,
    ranks=Amount(),
    tasks=Amount(4, "one rank per GPU"),
    cpus=Amount(7),
    gpus=4,
    gpu_option="--gres=gpu:{gpus}",
    memory_gib=Amount(),
    network=Amount(""),
    lines=(),
    storage=None,
    requeue=None,
    more=(),
)
PLACEMENT = Placement(nodes=2, ranks=0, tasks=4, cpus=7, gpus=4, by_tasks=True, flags=("--mpi=pmi2",))


def options(needs: JobNeeds) -> list[str]:
    return [directive.option for directive in SLURM.directives(needs)]


def test_a_script_asks_for_what_a_job_needs_in_order() -> None:
    assert options(NEEDS) == [
        *("--job-name=train", "--output=%x-%j.out", "--account=a", "--nodes=2"),
        *("--ntasks-per-node=4", "--cpus-per-task=7", "--gres=gpu:4"),
    ]


def test_the_site_s_memory_replaces_the_share_of_a_node() -> None:
    needs = NEEDS._replace(memory_gib=Amount(64, "its share"), lines=(Directive("--mem=0"),))
    assert "--mem=64G" not in options(needs) and "--mem=0" in options(needs)
    assert "--mem=64G" in options(needs._replace(lines=()))


@pytest.mark.parametrize(
    ("asked", "expected"), [("", ["-C nvme"]), ("gpu", ["--constraint=gpu&nvme"]), ("nvme|x", ["--constraint=nvme|x"])]
)
def test_storage_is_added_to_the_user_s_constraint(asked: str, expected: list[str]) -> None:
    needs = NEEDS._replace(options=(("constraint", asked),), storage=Directive("-C nvme"))
    assert [option for option in options(needs) if "nvme" in option] == expected


def test_an_array_has_a_file_for_each_member() -> None:
    assert "--output=%x-%A_%a.out" in options(NEEDS._replace(options=(("array", "0-3"),)))


def test_the_batch_script_gets_the_signal_alone_and_keeps_its_output() -> None:
    found = options(NEEDS._replace(requeue=Requeue("USR2", 300, 3), more=("--mem=0",)))
    assert found[-4:] == ["--signal=B:USR2@300", "--requeue", "--open-mode=append", "--mem=0"]


@pytest.mark.parametrize("option", ["--signal=B:USR1@120", "--signal=RB:TERM@5", "--signal=B:USR1"])
def test_a_signal_that_would_end_the_batch_script_is_refused(option: str) -> None:
    with pytest.raises(BadInputError, match="would end the batch script") as caught:
        SLURM.check({}, [option], None)
    assert caught.value.cure.startswith("Write --requeue-on ")


def test_one_signal_is_enough() -> None:
    SLURM.check({}, ["--signal=USR1@60", "--requeue"], None)
    with pytest.raises(BadInputError, match="both set a signal"):
        SLURM.check({}, ["--signal=USR1@60"], Requeue("USR1", 60, 1))


def test_what_sbatch_would_refuse_is_refused_before_a_script_is_written() -> None:
    with pytest.raises(BadInputError, match="'2 hours' is not a valid Slurm time limit"):
        SLURM.check({"time": "2 hours"}, [], None)
    with pytest.raises(BadInputError, match="'mem=0' is not an sbatch option"):
        SLURM.check({"time": "2-00:00:00"}, ["mem=0"], None)


def test_the_image_s_way_to_connect_replaces_the_site_s() -> None:
    assert "--mpi=pmi2" in SLURM.step(PLACEMENT)
    step = SLURM.step(PLACEMENT._replace(mpi="pmix", masks=("0xf", "0xf0")))
    assert step[0] == "srun" and "--mpi=pmi2" not in step and step[-1] == "--cpu-bind=mask_cpu:0xf,0xf0"


def test_tasks_start_next_to_those_of_a_step_that_holds_everything() -> None:
    assert SLURM.step_in_job(("srun", "--nodes=2"), tasks=8) == ("srun", "--overlap", "--ntasks=8", "--nodes=2")
    assert SLURM.step_in_job(("srun", "--nodes=2"), tasks=8, overlap=False) == ("srun", "--ntasks=8", "--nodes=2")
    assert SLURM.single_step(cpus=3, gpus=2)[-2:] == ("--cpus-per-task=3", "--gpus-per-node=2")


def test_an_allocation_has_no_options_of_scripts() -> None:
    assert SLURM.allocate(["--output=x", "--nodes=2", "-C nvme"]) == ("salloc", "--nodes=2", "-C", "nvme")


def test_the_name_of_a_job_is_read_back_from_its_script() -> None:
    assert SLURM.name_in("#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --nodes=2\n") == "train"
    assert SLURM.name_in("#!/bin/bash\n") == ""


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "7"}, None),
        (
            {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_GPUS": "a100:8"},
            Allocation(nodes=2, partition="", gpus=4, cpus=0, tasks=0, in_task=False),
        ),
        (
            {
                "SLURM_JOB_ID": "7",
                "SLURM_JOB_NUM_NODES": "1",
                "SLURM_JOB_PARTITION": "p",
                "SLURM_STEP_ID": "0",
                "SLURM_GPUS_ON_NODE": "2",
                "SLURM_CPUS_PER_TASK": "7",
                "SLURM_NTASKS_PER_NODE": "8",
                "SLURM_NTASKS": "8",
            },
            Allocation(nodes=1, partition="p", gpus=2, cpus=56, tasks=8, in_task=True),
        ),
    ],
)
def test_an_allocation_is_read_from_the_environment(environ: dict[str, str], expected: Allocation | None) -> None:
    assert SLURM.allocation(environ) == expected


def test_the_steps_of_batch_scripts_and_of_salloc_hold_nothing() -> None:
    environ = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "1", "SLURM_STEP_ID": "4294967290"}
    found = SLURM.allocation(environ)
    assert found is not None and not found.in_task


def test_the_place_of_a_process_is_that_of_its_task() -> None:
    environ = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_SUBMIT_HOST": "login"}
    assert SLURM.place(environ) == JobPlace(job="7", node="n1", login="login")
    assert SLURM.place({}) == JobPlace(job="", node="", login="")


def test_options_are_spelled_without_those_that_are_empty() -> None:
    assert SLURM.spell({"account": "a", "qos": "", "time": "10"}) == ("--account=a", "--time=10")
