"""The job that a process is in, as its environment describes it."""

from __future__ import annotations

import pytest

from hpcmod.jobs.values.allocation import Allocation, JobPlace, is_of_job, read_allocation, read_place


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
    assert read_allocation(environ) == expected


def test_the_steps_of_batch_scripts_and_of_salloc_hold_nothing() -> None:
    allocation = read_allocation({"SLURM_JOB_ID": "7", "SLURM_NNODES": "1", "SLURM_STEP_ID": "4294967290"})
    assert allocation is not None and not allocation.in_task


def test_the_place_of_a_process_is_that_of_its_task() -> None:
    environ = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_SUBMIT_HOST": "login"}
    assert read_place(environ) == JobPlace(job="7", node="n1", login="login")
    assert read_place({}) == JobPlace(job="", node="", login="")


def test_tells_variables_of_a_job_from_those_of_the_cluster() -> None:
    assert is_of_job("SLURM_NTASKS") and not is_of_job("SLURM_CONF") and not is_of_job("PATH")
