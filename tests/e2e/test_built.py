"""The recipe pytorch-cpu, built here as an ordinary user: to an image, a module, and a job on two nodes."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.stack import CHECKOUT, Cluster, Done, EasyBuild, Stack, run

pytestmark = pytest.mark.stack

PAGE = CHECKOUT / "docs" / "how-to" / "check-nodes.md"
PAIRS = [("ompi", "buildah")]

LAUNCHED = {
    "ompi": ("pmix", {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", "OMPI_MCA_mtl_ofi_provider_include": "tcp;ofi_rxm"}),
    "mpich": ("pmi2", {"FI_PROVIDER": "tcp"}),
}
"""How srun starts the ranks of each MPI, and what has it talk through libfabric."""

SCRIPT = """#!/bin/bash
set -e
module load {module}
srun --mpi={pmi} singularity exec $SIF conda-python-distributed {program}
"""


@dataclass(frozen=True)
class BuiltModule:
    """A module whose image was built by one engine, with one MPI."""

    mpi: str
    engine: str
    eb: EasyBuild
    said: str

    @property
    def name(self) -> str:
        return f"PyTorch/2.13.0-cpu-{self.mpi}-singularity"

    @property
    def sif(self) -> Path:
        return next((self.eb.prefix / "software" / self.name).glob("*.sif"))

    def install(self, *options: str) -> Done:
        stack = self.eb.stack
        amended = {"base_image": f"oci:{stack.base_image}", "wheel_dir": str(stack.wheels), "engine": self.engine}
        easyconfig = CHECKOUT / "easyconfigs/p/PyTorch" / f"{self.name.replace('/', '-')}.eb"
        done = self.eb(easyconfig, *options, *(f"--try-amend={key}={value}" for key, value in amended.items()))
        assert done.returncode == 0, done.stdout
        return done


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def built(
    request: pytest.FixtureRequest, stack: Stack, base_image: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BuiltModule]:
    mpi, engine = request.param
    top = tmp_path_factory.mktemp(f"built-{mpi}")
    eb = EasyBuild(stack, top, top / "central")
    said = BuiltModule(mpi, engine, eb, "").install().stdout
    yield BuiltModule(mpi, engine, eb, said)
    shutil.rmtree(eb.prefix)  # an image of 0.4 GB


def read_output(directory: Path) -> str:
    return "".join(path.read_text() for path in directory.glob("*.out"))


def wait_until(ended: Callable[[], bool], directory: Path) -> None:
    for _ in range(200):
        if ended():
            return
        time.sleep(0.5)
    raise AssertionError(read_output(directory))


def test_eb_builds_the_image_with_that_engine_and_leaves_nothing_else(built: BuiltModule) -> None:
    assert f"built by {built.engine}" in built.said
    assert [path.name for path in (built.eb.prefix / "build").iterdir() if path.name.startswith(".")] == []
    kept = {path.suffix for path in (built.eb.prefix / "sources/p/PyTorch").iterdir() if path.is_file()}
    assert kept == {".sif", ".json"}


def test_an_existing_build_is_reused(built: BuiltModule) -> None:
    again = built.install("--rebuild").stdout
    assert "already built" in again and "== step " not in again


def test_the_image_says_what_is_inside(built: BuiltModule) -> None:
    apptainer, environment = str(built.eb.stack.apptainer), built.eb.stack.environment(built.eb.top)
    labels = json.loads(run([apptainer, "inspect", "--json", "--labels", str(built.sif)], environment).stdout)
    labels = labels["data"]["attributes"]["labels"]
    assert labels["org.hpcmod.recipe"] == "pytorch-cpu"
    assert f"mpi={built.mpi}" in labels["org.hpcmod.options"] and labels["org.hpcmod.ofi"] == "swap"
    python = f"python={sys.version_info.major}.{sys.version_info.minor}"  # the base is of the machine's own release
    assert {"torch=2.13.0+cpu", python} <= set(labels["org.hpcmod.versions"].split())
    assert labels["org.hpcmod.needs.glibc"].startswith("2.") and labels["org.hpcmod.needs.fabric"].startswith("1.")
    listed = run([apptainer, "-q", "exec", str(built.sif), "cat", "/opt/hpcmod/sbom.cdx.json"], environment)
    components = {one["name"]: one["version"] for one in json.loads(listed.stdout)["components"]}
    assert components["torch"] == "2.13.0+cpu" and {"libc6", "mpi4py", "numpy"} <= set(components)
    assert ("libfabric1" if built.mpi == "ompi" else "mpich") in components


def test_the_verdict_on_it_is_ok(built: BuiltModule) -> None:
    hpcmod = str(built.eb.stack.python.parent / "hpcmod")
    done = run([hpcmod, "compat", "--json", str(built.sif)], built.eb.stack.environment(built.eb.top))
    assert done.returncode == 0 and json.loads(done.stdout)["level"] == "ok", done.stdout + done.stderr


def test_its_module_reduces_over_mpi_and_over_gloo_on_two_nodes(
    built: BuiltModule, cluster: Cluster, tmp_path: Path
) -> None:
    program = shutil.copy(CHECKOUT / "tests/e2e/mpi.py", tmp_path)
    pmi, settings = LAUNCHED[built.mpi]
    script = tmp_path / "job.sh"
    script.write_text(SCRIPT.format(module=built.name, pmi=pmi, program=program))
    tools = {"BASH_ENV": str(cluster.stack.lmod_init), "MODULEPATH": str(built.eb.modules), "APPTAINER_QUIET": "1"}
    options = ("--parsable", "-N2", "--ntasks-per-node=1", "--output=job.out", "-t", "5")
    job = cluster("sbatch", *options, script, cwd=tmp_path, **tools, **settings, GLOO_SOCKET_IFNAME="hsn0")
    # sbatch --wait looks seldom
    listed = f"listed=$(squeue -h -o %A) && ! grep -qx {job.stdout.strip()}"
    cluster("bash", "-c", f'until {listed} <<<"$listed"; do sleep 0.5; done')
    said = (tmp_path / "job.out").read_text()
    assert "JobState=COMPLETED" in cluster("scontrol", "show", "job", job.stdout.strip()).stdout, said
    ranks = sorted(
        (json.loads(line) for line in said.splitlines() if line.startswith("{")), key=lambda one: one["RANK"]
    )
    assert [one["mpi"] for one in ranks] == [[0, 2, 1], [1, 2, 1]]
    assert [one["gloo"] for one in ranks] == [1, 1]
    assert sorted(one["host"] for one in ranks) == ["nid001", "nid002"]
    assert {one["library"].split()[0] for one in ranks} == {"Open" if built.mpi == "ompi" else "MPICH"}
    assert all(any("libfabric" in path for path in one["loaded"]) for one in ranks), ranks
