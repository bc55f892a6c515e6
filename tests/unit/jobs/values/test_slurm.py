"""Slurm's options for scripts and steps."""

from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.jobs.values import slurm
from hpcmod.jobs.values.requeue import Requeue
from hpcmod.jobs.values.slurm import Directive
from hpcmod.machine.values.site import JobRules, Site


@pytest.mark.parametrize(
    ("name", "title", "start"), [("pbs", "PBS", "mpiexec -n RANKS"), ("flux", "Flux", "flux run -N NODES")]
)
def test_another_scheduler_is_refused_by_name_with_what_to_do(name: str, title: str, start: str) -> None:
    with pytest.raises(LackingError, match=f"scheduler is {title} .site profile ours.") as refused:
        slurm.check_scheduler(Site("ours", job=JobRules(scheduler=name)))
    assert f"{start}" in refused.value.cure and "singularity exec $SIF conda-python-distributed" in refused.value.cure


@pytest.mark.parametrize(("asked", "expected"), [("", ""), ("gpu", "gpu&nvme"), ("nvme|x", "nvme|x")])
def test_storage_is_added_to_the_user_s_constraint(asked: str, expected: str) -> None:
    assert slurm.merge_constraint(asked, "-C nvme") == expected
    assert slurm.merge_constraint(asked, "--gres=nvme") == ""


@pytest.mark.parametrize("option", ["--signal=B:USR1@120", "--signal=RB:TERM@5", "--signal=B:USR1"])
def test_a_signal_that_would_end_the_batch_script_is_refused(option: str) -> None:
    with pytest.raises(BadInputError, match="would end the batch script") as caught:
        slurm.check_options({}, [option], None)
    assert caught.value.cure.startswith("Write --requeue-on ")


def test_one_signal_is_enough() -> None:
    slurm.check_options({}, ["--signal=USR1@60", "--requeue"], None)
    with pytest.raises(BadInputError, match="both set a signal"):
        slurm.check_options({}, ["--signal=USR1@60"], Requeue("USR1", 60))


def test_what_sbatch_would_refuse_is_refused_before_a_script_is_written() -> None:
    with pytest.raises(BadInputError, match="'2 hours' is not a valid Slurm time limit"):
        slurm.check_options({"time": "2 hours"}, [], None)
    with pytest.raises(BadInputError, match="'mem=0' is not an sbatch option"):
        slurm.check_options({"time": "2-00:00:00"}, ["mem=0"], None)


def test_tasks_start_next_to_those_of_a_step_that_holds_everything() -> None:
    step = ("srun", "--nodes=2")
    assert slurm.step_in_job(step, tasks=8) == ("srun", "--overlap", "--ntasks=8", "--nodes=2")
    assert slurm.step_in_job(step, tasks=8, overlap=False) == ("srun", "--ntasks=8", "--nodes=2")


def test_an_allocation_has_no_options_of_scripts() -> None:
    options = map(Directive, ["--output=x", "--error=e", "--array=0-3", "--nodes=2", "-C nvme"])
    assert slurm.make_salloc(list(options)) == ("salloc", "--nodes=2", "-C", "nvme")


def test_an_option_is_found_among_those_of_sbatch_by_either_name() -> None:
    assert slurm.value_of(["--output=a", "-ob", "--outputs=c"], "output", "o") == "b"
    assert slurm.value_of(["--chdir=/x"], "chdir", "D") == "/x" and slurm.value_of(["--mem=0"], "chdir", "D") == ""


def test_options_are_spelled_without_those_that_are_empty() -> None:
    assert slurm.spell_options({"account": "a", "qos": "", "time": "10"}) == ("--account=a", "--time=10")
