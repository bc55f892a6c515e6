"""The run scripts with real launchers: Slurm's srun on four virtual nodes, Open MPI's mpirun, torchrun; Gloo on CPUs.

GPUs are stand-ins: device files that Slurm allocates. The tests only check the variables that select a GPU.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hpcmod.machine.values.site import Nodes, NodeType, Site
from hpcmod.machine.values.tables import Gpus
from hpcmod.modules.values.plan import RunscriptSettings
from tests.e2e.conftest import Ranks, places, processes_of
from tests.stack import CHECKOUT, Cluster, Done, Stack, start_cluster, stop_cluster, until
from tests.unit.runscripts.scripts import make_program, write_runscripts

pytestmark = pytest.mark.stack

MEET = CHECKOUT / "tests" / "e2e" / "meet.py"
ALL_REDUCE = CHECKOUT / "tests" / "e2e" / "allreduce.py"
SETTINGS = RunscriptSettings(
    "PyTorch/1",
    "SIFPYTORCH",
    site=Site(
        "x",
        gpu=Gpus(visibility=("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), per_rank="one"),
        nodes=Nodes((NodeType("node", gpus=4),)),
    ),
)


@pytest.fixture(scope="module")
def nodes(stack: Stack) -> Iterator[Cluster]:
    started = start_cluster(stack, f"distributed-{os.getpid()}", "-n", "4", "-c", "4", "-g", "4")
    yield started
    stop_cluster(started)


@dataclass(frozen=True)
class Runner:
    """Runs Python through conda-python-distributed in a real image, with a launcher of the cluster."""

    nodes: Cluster
    scripts: Path
    program: str = "/runscripts/conda-python-distributed"

    def inside(self, image: Path) -> list[str]:
        binds = [f"--bind={self.scripts}:/runscripts", f"--bind={CHECKOUT / 'tests'}"]
        return [str(self.nodes.stack.apptainer), "-q", "exec", *binds, str(image), self.program]

    def __call__(self, launcher: str, *words: object, image: Path | None = None, **env: str) -> Done:
        own = {"HPCMOD_CACHE_ROOT": str(self.scripts / "caches"), "GLOO_SOCKET_IFNAME": "hsn0"}
        line = [*launcher.split(), *self.inside(image or self.nodes.stack.tiny_sif), *map(str, words)]
        return self.nodes(*line, timeout=120, **{**own, **env})


@pytest.fixture
def run(nodes: Cluster, tmp_path: Path) -> Runner:
    write_runscripts(tmp_path, SETTINGS)
    return Runner(nodes, tmp_path)


def ranks_of(done: Done) -> Ranks:
    """Return what each rank printed, ordered by rank."""
    assert done.returncode == 0, done.stdout + done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return sorted(told, key=lambda rank: int(rank["RANK"]))


EIGHT = [f"{local} 8 2 {node} nid00{node + 1}" for node in range(4) for local in range(2)]
UNEVEN = ["0 4 3 0 nid001", "1 4 3 0 nid001", "2 4 3 0 nid001", "0 4 1 1 nid002"]


def test_three_ranks_and_one_reduce(run: Runner) -> None:
    ranks = ranks_of(run("srun -N2 -n4 -m arbitrary -w nid001,nid001,nid001,nid002", MEET, "0"))
    assert places(ranks) == UNEVEN and {rank["total"] for rank in ranks} == {6}


def test_torchrun_starts_a_rank_on_each_of_two_nodes(run: Runner, torch_sif: Path) -> None:
    options = ("--launcher", "torchrun", "--ranks-per-node", "1")
    ranks = ranks_of(run("srun -N2 -n2 --ntasks-per-node=1", *options, ALL_REDUCE, image=torch_sif))
    assert places(ranks) == ["0 2 1 0 nid001", "0 2 1 1 nid002"]
    assert {rank["total"] for rank in ranks} == {1}


def test_a_users_variant_with_another_port_and_a_variable_runs_on_two_nodes(run: Runner) -> None:
    text = (run.scripts / "conda-python-distributed").read_text()
    text = text.replace("\noffer_meeting_point\n", "\noffer MASTER_PORT 29500 'mine'\noffer_meeting_point\n")
    text = text.replace("\noffer_settings\n", "\noffer GROUP mine 'my own'\noffer_settings\n")
    make_program(run.scripts / "mine" / "my-distributed", text)
    mine = replace(run, program="/runscripts/mine/my-distributed")
    ranks = ranks_of(mine("srun -w nid[001-002] -N2 -n4 --ntasks-per-node=2", MEET, "0"))
    assert [(rank["MASTER_PORT"], rank["group"], rank["total"]) for rank in ranks] == [("29500", "mine", 6)] * 4


def test_two_jobs_on_the_same_nodes_do_not_meet(run: Runner) -> None:
    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(run, "srun -w nid[001-002] -N2 -n4 --ntasks-per-node=2", MEET, "1", GROUP=name)
            for name in ("first", "second")
        ]
        ranks = [ranks_of(job.result()) for job in jobs]
    assert [{rank["group"] for rank in each} for each in ranks] == [{"first"}, {"second"}]
    assert [[rank["total"] for rank in each] for each in ranks] == [[6] * 4] * 2
    assert len({rank["MASTER_PORT"] for each in ranks for rank in each}) == 2
    assert {rank["host"] for rank in ranks[0]} == {rank["host"] for rank in ranks[1]}


PATIENT = """
import os, signal, sys, time
place = os.environ["SAID"] + os.environ["RANK"]
signal.signal(signal.SIGTERM, lambda *_: (open(place, "w").write("terminated"), sys.exit(0)))
open(place + ".started", "w").close()
time.sleep(300)
"""


@pytest.mark.parametrize("saving", [(), ("--save-caches",)], ids=["python alone", "caches to be saved"])
def test_scancel_reaches_python_and_leaves_no_process(run: Runner, tmp_path: Path, saving: tuple[str, ...]) -> None:
    word = f"patient-{os.getpid()}-{len(saving)}"
    program = tmp_path / f"{word}.py"
    program.write_text(PATIENT)
    options = [*saving, str(tmp_path / "saved")] if saving else []
    words = [*run.inside(run.nodes.stack.tiny_sif), *options, str(program)]
    words.insert(words.index("exec") + 1, f"--bind={tmp_path}")
    script = f"#!/bin/bash\nexport SAID={tmp_path}/said-\nexec srun -n4 {shlex.join(words)}\n"
    (tmp_path / "job.sh").write_text(script)
    output = tmp_path / "output"
    job = run.nodes("sbatch", "--parsable", "-N2", "--ntasks-per-node=2", f"--output={output}", tmp_path / "job.sh")
    assert job.returncode == 0, job.stderr
    started = [tmp_path / f"said-{rank}.started" for rank in range(4)]
    assert until(lambda: all(path.exists() for path in started)), output.read_text()
    run.nodes("scancel", job.stdout.strip())
    assert until(lambda: not processes_of(word)), processes_of(word)
    assert [(tmp_path / f"said-{rank}").read_text() for rank in range(4)] == ["terminated"] * 4


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        pytest.param("--gpus-per-node=4", ["0", "1", "2", "3"], id="all four, so one each"),
        pytest.param("--gpus-per-task=1 --gpu-bind=closest", None, id="one a task, the closest"),
        pytest.param("--gpus-per-node=4 --gpu-bind=single:1", None, id="bound, as Slurm chose"),
    ],
)
def test_each_rank_sees_one_stand_in_for_a_gpu(run: Runner, options: str, seen: list[str] | None) -> None:
    names = ("SLURM_PROCID", "ROCR_VISIBLE_DEVICES", "LOCAL_RANK", "HPCMOD_LOCAL_RANK")
    show = f"import os; print(*(os.environ[name] for name in {names}))"
    done = run(f"srun -N1 -n4 {options}", "-c", show)
    assert done.returncode == 0, done.stderr
    devices = [line.split()[1] for line in sorted(done.stdout.splitlines())]
    assert [line.split()[2:] for line in sorted(done.stdout.splitlines())] == [["0", str(rank)] for rank in range(4)]
    assert len(devices) == 4 and not any("," in device for device in devices)
    assert seen is None or devices == seen


def test_mpirun_of_open_mpi_starts_ranks_on_two_nodes(run: Runner) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun on this machine: run dev/stack mpi")
    launcher = "salloc -Q -N2 -n4 --ntasks-per-node=2 mpirun --mca oob_tcp_if_include 10.77.0.0/24"
    ranks = ranks_of(run(launcher, MEET, "0", HPCMOD_GPUS_VISIBLE="all"))
    # Slurm may have chosen the second and third node if a job on the first was just ending.
    hosts = sorted({place.split()[-1] for place in places(ranks)})
    assert places(ranks) == [f"{local} 4 2 {node} {hosts[node]}" for node in range(2) for local in range(2)]
    assert [rank["total"] for rank in ranks] == [6] * 4
    assert {rank["MASTER_ADDR"] for rank in ranks} == {hosts[0]}
