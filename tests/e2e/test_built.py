"""The recipe pytorch-cpu, built here as an ordinary user: to an image, a module, and a job on two nodes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.images import Sif
from tests.integration.conftest import sha256_of
from tests.stack import CHECKOUT, Cluster, EasyBuild, Stack, run

pytestmark = pytest.mark.stack

MODULE = "PyTorch/2.13.0-cpu-ompi-singularity"
THROUGH_LIBFABRIC = {
    "OMPI_MCA_pml": "cm",
    "OMPI_MCA_mtl": "ofi",
    "OMPI_MCA_mtl_ofi_provider_include": "tcp;ofi_rxm",
}
SCRIPT = """#!/bin/bash
set -e
module load {module}
srun --mpi=pmix singularity exec $SIF conda-python-distributed {program}
"""


@dataclass(frozen=True)
class BuiltModule:
    """A module whose image was built by buildah, with Open MPI."""

    eb: EasyBuild
    builds: Path

    @property
    def sif(self) -> Path:
        return next((self.eb.prefix / "software" / MODULE).glob("*.sif"))


MAKERS = ("recipes", "src/hpcmod/building")
"""What decides what an image is built of. Others test the conversion to SIF, and the easyblock."""


def builds_of(stack: Stack) -> Path:
    """Return the directory in the stack for the images that this checkout builds."""
    files = sorted(path for top in MAKERS for path in (CHECKOUT / top).rglob("*") if path.is_file())
    texts = b"".join(path.read_bytes() for path in files if path.suffix != ".pyc")
    return stack.root / "cache" / "builds" / hashlib.sha256(texts).hexdigest()[:16]


@pytest.fixture(scope="module")
def built(stack: Stack, base_image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltModule]:
    """Build the image, which takes minutes, unless an earlier run left one that the same code and recipes made."""
    top, builds = tmp_path_factory.mktemp("built"), builds_of(stack)
    for other in builds.parent.glob("*"):
        if other != builds:
            shutil.rmtree(other)
    variables = {"EASYBUILD_SOURCEPATH": str(builds), "XDG_STATE_HOME": str(builds / "state")}
    eb = EasyBuild(stack, top, top / "central", variables=variables)
    amended = {"base_image": f"oci:{stack.base_image}", "wheel_dir": str(stack.wheels), "engine": "buildah"}
    easyconfig = CHECKOUT / "easyconfigs/p/PyTorch" / f"{MODULE.replace('/', '-')}.eb"
    done = eb(easyconfig, *(f"--try-amend={key}={value}" for key, value in amended.items()))
    assert done.returncode == 0, done.stdout
    yield BuiltModule(eb, builds)
    shutil.rmtree(eb.prefix)  # an image of 0.4 GB


def test_eb_builds_the_image_with_that_engine_and_leaves_nothing_else(built: BuiltModule) -> None:
    (image,) = (built.builds / "p/PyTorch").glob("*.sif")
    known = Sif(image).provenance(None)
    assert known is not None and known.tool.endswith(" by buildah") and known.sha256 == sha256_of(built.sif)
    assert [path.name for path in (built.eb.prefix / "build").iterdir() if path.name.startswith(".")] == []
    kept = {path.suffix for path in (built.builds / "p/PyTorch").iterdir() if path.is_file()}
    assert kept == {".sif", ".json"}


def test_the_image_says_what_is_inside(built: BuiltModule) -> None:
    apptainer, environment = str(built.eb.stack.apptainer), built.eb.stack.environment(built.eb.top)
    labels = json.loads(run([apptainer, "inspect", "--json", "--labels", str(built.sif)], environment).stdout)
    labels = labels["data"]["attributes"]["labels"]
    assert labels["org.hpcmod.recipe"] == "pytorch-cpu"
    assert "mpi=ompi" in labels["org.hpcmod.options"] and labels["org.hpcmod.ofi"] == "swap"
    listed = run([apptainer, "-q", "exec", str(built.sif), "cat", "/opt/hpcmod/sbom.cdx.json"], environment)
    components = {one["name"]: one["version"] for one in json.loads(listed.stdout)["components"]}
    assert components["torch"] == "2.13.0+cpu" and {"libc6", "libfabric1", "mpi4py", "numpy"} <= set(components)


def test_the_verdict_on_it_is_ok(built: BuiltModule) -> None:
    hpcmod = str(built.eb.stack.python.parent / "hpcmod")
    done = run([hpcmod, "compat", "--json", str(built.sif)], built.eb.stack.environment(built.eb.top))
    assert done.returncode == 0 and json.loads(done.stdout)["level"] == "ok", done.stdout + done.stderr


def test_its_module_reduces_over_mpi_and_over_gloo_on_two_nodes(
    built: BuiltModule, cluster: Cluster, tmp_path: Path
) -> None:
    program = shutil.copy(CHECKOUT / "tests/e2e/mpi.py", tmp_path)
    script = tmp_path / "job.sh"
    script.write_text(SCRIPT.format(module=MODULE, program=program))
    tools = {"BASH_ENV": str(cluster.stack.lmod_init), "MODULEPATH": str(built.eb.modules), "APPTAINER_QUIET": "1"}
    options = ("--parsable", "-N2", "--ntasks-per-node=1", "--output=job.out", "-t", "5")
    job = cluster("sbatch", *options, script, cwd=tmp_path, **tools, **THROUGH_LIBFABRIC, GLOO_SOCKET_IFNAME="hsn0")
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
    assert {one["library"].split()[0] for one in ranks} == {"Open"}
    assert all(any("libfabric" in path for path in one["loaded"]) for one in ranks), ranks
