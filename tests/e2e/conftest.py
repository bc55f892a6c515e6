"""Shared by the job tests: a cluster like a large machine, modules installed once, methods to submit and wait.

machine      four virtual nodes with 288 CPUs in 4 sockets and 8 GPUs each: stand-ins, configured in Slurm
tiny_jobs    jobs on it with a PyTorch module whose image has no torch
torch_jobs   jobs on it with a PyTorch module whose image has torch for CPUs
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.stack import CHECKOUT, Cluster, Done, EasyBuild, Stack, start_cluster, stop_cluster

MEET = CHECKOUT / "tests" / "e2e" / "meet.py"

OF_LUMIS_PAGE = "PyTorch-2.2.0-rocm-5.6.1-python-3.10-singularity-20240209"
"""The module loaded by the batch script on LUMI's module page."""

EASYCONFIG = """
easyblock = 'ContainerModule'
name = 'PyTorch'
version = '2.2.0'
versionsuffix = '-rocm-5.6.1-python-3.10-singularity-20240209'
homepage = 'https://pytorch.org/'
description = 'A stand-in: no torch inside'
toolchain = SYSTEM
sources = ['tiny.sif']
checksums = [None]
moduleclass = 'ai'
"""

SITE = """
name = "virtual"
extends = "lumi"
[gpu]
per_rank = "all"
[binds]
required = []
optional = []
[environment]
NCCL_SOCKET_IFNAME = "hsn"
GLOO_SOCKET_IFNAME = "hsn0"
[host_commands]
allowed = ["srun", "sbatch", "squeue", "scancel", "sinfo"]
[stage.ram]
directory = "{local}"
[stage.nvme]
directory = "{local}"
flag = "-C nvme"
"""

Ranks = list[dict[str, str]]


@dataclass(frozen=True)
class Jobs:
    """Submits jobs to the virtual machine from a separate directory for each test."""

    machine: Cluster
    modules: Path
    site: Path
    directory: Path

    @property
    def local(self) -> Path:
        """The node-local directory; from outside, it is nodes/NAME of the cluster."""
        return self.machine.dir / "local"

    def __call__(self, *argv: str | Path, seconds: float = 120, **env: str) -> Done:
        """Run a command on the login node, with `module` defined as in a login shell."""
        stack = self.machine.stack
        tools = {"BASH_ENV": str(stack.lmod_init), "MODULEPATH": str(self.modules), "HPCMOD_SITE": str(self.site)}
        own = {**tools, "SBATCH_ACCOUNT": "project_1", "APPTAINER_QUIET": "1"}
        own = {**own, "HPCMOD_CACHE_ROOT": str(self.caches), **env}
        return self.machine(*argv, cwd=self.directory, timeout=seconds, **own)

    def hpcmod(self, *words: str | Path, **env: str) -> Done:
        """Run hpcmod and require that it succeeds."""
        return must(self(self.machine.stack.python.parent / "hpcmod", *words, **env))

    def submit(self, *words: str | Path, **env: str) -> str:
        """Submit the script that `hpcmod job` writes, and return the job ID."""
        return self.hpcmod("job", "PyTorch", "-t", "00:05:00", "--submit", *words, **env).stdout.strip()

    def wait(self, *numbers: str, seconds: float = 120) -> None:
        """Wait until jobs have ended and Slurm has cleaned up; squeue may fail on a busy machine."""
        listed = f"listed=$(squeue -h -o %A) && ! grep -qxE '{'|'.join(numbers)}'"
        script = f'until {listed} <<<"$listed"; do sleep 0.5; done'
        must(self("bash", "-c", script, seconds=seconds))

    def state(self, number: str) -> str:
        """Return the state of a job: COMPLETED, FAILED, CANCELLED, ..."""
        shown = must(self("scontrol", "show", "job", number)).stdout
        return shown.partition("JobState=")[2].split()[0]

    def output(self, number: str) -> str:
        """Return the output of a job."""
        return "".join(path.read_text() for path in self.directory.glob(f"*-{number}.out"))

    def ranks(self, number: str) -> Ranks:
        """Return what each rank of a job printed, ordered by rank."""
        assert self.state(number) == "COMPLETED", self.output(number)
        told = [json.loads(line) for line in self.output(number).splitlines() if line.startswith("{")]
        return sorted(told, key=lambda rank: int(rank["RANK"]))

    def left_behind(self) -> list[str]:
        """Return all paths on the disks of the nodes."""
        return sorted(str(path) for path in (self.machine.dir / "nodes").glob("*/*"))

    @property
    def caches(self) -> Path:
        """The directory for caches of jobs: not /tmp, where those of another cluster may have the same names."""
        return self.directory / "caches"


def processes_of(mark: str) -> list[str]:
    """Return the command lines on this machine, which runs the nodes of the cluster, that contain a word."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if mark in line]


def must(done: Done) -> Done:
    assert done.returncode == 0, f"{shlex.join(done.args[3:])}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="session")
def machine(stack: Stack) -> Iterator[Cluster]:
    started = start_cluster(stack, f"machine-{os.getpid()}", "-n", "4", "-c", "288", "-s", "4", "-g", "8")
    yield started
    stop_cluster(started)


def installed(stack: Stack, top: Path, machine: Cluster, easyconfig: Path, image: Path) -> Jobs:
    eb = EasyBuild(stack, top, top / "central")
    eb.central.mkdir()
    (eb.central / image.name).symlink_to(image)
    site = top / "site.toml"
    site.write_text(SITE.format(local=machine.dir / "local"))
    must(eb(easyconfig, HPCMOD_SITE=str(site)))
    return Jobs(machine, eb.modules, site, top)


@pytest.fixture(scope="session")
def tiny_installed(stack: Stack, machine: Cluster, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    top = tmp_path_factory.mktemp("tiny-jobs")
    easyconfig = top / f"{OF_LUMIS_PAGE}.eb"
    easyconfig.write_text(EASYCONFIG)
    return installed(stack, top, machine, easyconfig, tiny_sif)


@pytest.fixture(scope="session")
def torch_installed(stack: Stack, machine: Cluster, torch_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    easyconfig = CHECKOUT / "easyconfigs/p/PyTorch/PyTorch-2.13.0-cpu-singularity.eb"
    return installed(stack, tmp_path_factory.mktemp("torch-jobs"), machine, easyconfig, torch_sif)


@pytest.fixture(scope="session")
def py_spy(stack: Stack) -> str:
    """Return the directory of py-spy, which is not on PATH."""
    return str(stack.root / "tools" / "py-spy" / "bin")


@pytest.fixture
def tiny_jobs(tiny_installed: Jobs, tmp_path: Path) -> Jobs:
    (tmp_path / "caches").mkdir(exist_ok=True)  # a test may use both kinds of jobs
    return replace(tiny_installed, directory=tmp_path)


@pytest.fixture
def torch_jobs(torch_installed: Jobs, tmp_path: Path) -> Jobs:
    (tmp_path / "caches").mkdir(exist_ok=True)  # a test may use both kinds of jobs
    return replace(torch_installed, directory=tmp_path)


def places(ranks: Ranks) -> list[str]:
    """Return the rank variables and the host of each rank, as one string per rank."""
    names = ("LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "host")
    return [" ".join(str(rank[name]) for name in names) for rank in ranks]


def equal_shares(nodes: int, each: int) -> list[str]:
    """Return what `places` must return for this many nodes and ranks per node."""
    return [f"{local} {nodes * each} {each} {node} nid{node + 1:03}" for node in range(nodes) for local in range(each)]
