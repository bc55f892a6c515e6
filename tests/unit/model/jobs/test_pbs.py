"""Options and directives of PBS as documented: golden files of scripts, and refusals. Not run with PBS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.errors import BadInputError, LackingError
from hpcmod.machine import load_site
from hpcmod.model.jobs.job import make_job
from hpcmod.model.jobs.pbs import Pbs
from hpcmod.model.jobs.request import JobModule, JobRequest
from hpcmod.model.jobs.requeue import Requeue
from hpcmod.model.jobs.scheduler import JobPlace, Placement
from hpcmod.model.site import JobRules, NodeType, Site
from hpcmod.render.jobscript import make_allocate, render_jobscript

PBS = Pbs()
SITE = Site("ours", job=JobRules(scheduler="pbs"), node_types=(NodeType("cpu", cores=64),))
GOLDEN = Path(__file__).parent / "golden"
PLACEMENT = Placement(nodes=2, ranks=0, tasks=4, cpus=8, gpus=4, by_tasks=True, flags=("--gpus-per-task=1",))

FINISHED = """\
Job Id: 4711.pbs-01
    Job_Name = train
    Job_Owner = me@login1
    resources_used.walltime = 00:10:03
    job_state = F
    Exit_status = 265
    Join_Path = oe
    Output_Path = login1:/home/me/train.o4711
    Error_Path = login1:/home/me/train.e4711
    Resource_List.nodect = 2
    Resource_List.mpiprocs = 8
    Resource_List.walltime = 01:00:00
    exec_host = x3001/0*64+x3002/0*64
    Variable_List = PBS_O_HOME=/home/me,PBS_O_LANG=en_US,
\tPBS_O_WORKDIR=/home/me/project
    comment = Job run at Mon Nov 23 and failed

Job Id: 4712.pbs-01
    Job_Name = other
"""


def request(*program: str, **asked: object) -> JobRequest:
    words = program or ("train.py", "--epochs", "3")
    return JobRequest(words, "PyTorch/2.7.1", loading=JobModule("PyTorch/2.7.1"), **asked)  # type: ignore[arg-type]


def test_batch_scripts_are_those_of_the_golden_files(golden: Callable[[Path, str], None]) -> None:
    options = (("account", "proj"), ("partition", "debug"), ("time", "90"))
    more = ("-lfilesystems=home:eagle",)
    gpus = request(nodes=2, options=options, more=more, before=(("prepare.py",),), then=(("evaluate.py",),))
    golden(GOLDEN / "polaris.pbs", render_jobscript(make_job(gpus, load_site("polaris", {}))))
    long = (*options, ("array", "0-15"), ("dependency", "afterok:12.pbs"), ("output", "train.log"), ("error", "x.err"))
    cores = request("mpi-program", "x y", nodes=3, ranks=10, cpus=16, options=long)
    golden(GOLDEN / "cores.pbs", render_jobscript(make_job(cores, SITE)))


def test_an_interactive_job_asks_for_the_same_nodes() -> None:
    plan = make_job(request(nodes=2, cpus=8, options=(("time", "1:00:00"),)), SITE)
    assert make_allocate(plan) == (
        *("qsub", "-I", "-l", "walltime=01:00:00", "-l", "select=2:ncpus=8:mpiprocs=1", "-l", "place=scatter"),
    )


def test_the_user_s_nodes_and_places_replace_ours() -> None:
    plan = make_job(request(nodes=2, more=("-lselect=2:system=polaris", "-lplace=scatter:excl")), SITE)
    options = [one.option for one in plan.directives]
    assert [one for one in options if "select" in one] == ["-lselect=2:system=polaris"]
    assert [one for one in options if "place" in one] == ["-lplace=scatter:excl"]
    assert PBS.is_exclusive(options) and not PBS.is_exclusive(["-l place=scatter"])


@pytest.mark.parametrize(
    ("given", "written"),
    [("90", "01:30:00"), ("1:30", "00:01:30"), ("26:00:00", "26:00:00"), ("2-12", "60:00:00"), ("1-0:30", "24:30:00")],
)
def test_time_limits_are_written_as_pbs_reads_them(given: str, written: str) -> None:
    assert PBS.spell({"time": given}) == (f"-l walltime={written}",)


@pytest.mark.parametrize(
    "asked",
    [{"time": "soon"}, {"qos": "x"}, {"constraint": "gpu"}, {"reservation": "r"}, {"chdir": "/x"}, {"array": "1,3"}],
)
def test_options_without_a_counterpart_are_refused(asked: dict[str, str]) -> None:
    with pytest.raises(BadInputError) as caught:
        PBS.check(asked, (), None)
    assert caught.value.cure


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"stage": "ram"}, "--stage "),
        ({"stage_data": ("x.tar",)}, "--stage-data "),
        ({"check": "stop"}, "--check "),
        ({"report": True}, "--report "),
        ({"requeue": Requeue("USR1", 60, 1)}, "--requeue-on "),
        ({"mpi": "pmix"}, "--mpi "),
    ],
)
def test_what_needs_steps_of_our_own_is_refused(asked: dict[str, object], named: str) -> None:
    with pytest.raises(BadInputError, match=f"^{named}does not work with PBS"):
        make_job(request(**asked), SITE)


def test_ranks_get_the_cores_near_their_gpus() -> None:
    masks = ("0xff000000", "0xff0000", "0xff00", "0x1ff")
    assert PBS.step(PLACEMENT._replace(masks=masks))[-2:] == ("--cpu-bind", "list:24-31:16-23:8-15:0-8")
    assert PBS.step(PLACEMENT) == ("mpiexec", "-n", "8", "--ppn", "4", "--depth", "8", "--cpu-bind", "depth")
    assert PBS.step(PLACEMENT._replace(ranks=7, cpus=0)) == ("mpiexec", "-n", "7", "--ppn", "4")


def test_a_job_is_known_but_takes_no_steps_of_ours() -> None:
    inside = {"PBS_JOBID": "4711.pbs-01", "PBS_O_HOST": "login1"}
    assert PBS.allocation({}) is None and PBS.place(inside) == JobPlace("4711.pbs-01", "", "login1")
    for refused in (lambda: PBS.allocation(inside), lambda: PBS.step_on_nodes(2, minutes=1)):
        with pytest.raises(LackingError, match="no steps of its own"):
            refused()
    assert PBS.is_of_job("PBS_JOBID") and not PBS.is_of_job("PBS_DEFAULT") and not PBS.is_of_job("PATH")


def test_qstat_tells_how_a_job_ended() -> None:
    found = PBS.read_facts(FINISHED, "")
    assert found is not None
    assert (found.number, found.state, found.code, found.signal) == ("4711.pbs-01", "FINISHED", 0, 9)
    assert (found.nodes, found.node_count, found.tasks) == ("x3001,x3002", 2, 8)
    assert (found.output, found.error, found.directory) == ("/home/me/train.o4711", "", "/home/me/project")
    assert not found.running and not found.waiting and found.reason == "Job run at Mon Nov 23 and failed"
    assert PBS.read_facts("qstat: Unknown Job Id 1", "") is None


def test_the_name_of_a_job_is_in_its_script() -> None:
    assert PBS.name_in("#!/bin/bash\n#PBS -N train\n") == "train" and PBS.name_in("#!/bin/bash\n") == ""
