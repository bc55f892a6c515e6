"""A new machine described in one TOML file: binds, CPU masks, module and jobs work without writing any Python."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import installed, write_easyconfig
from tests.stack import EasyBuild, ModuleTool, Stack

pytestmark = pytest.mark.stack

ZEPHYR = """
name = "zephyr"
extends = "generic-amd"
description = "An invented machine"

[images]
central = ["{top}/central"]

[binds]
required = ["{top}/fs/spool", "{top}/fs/gone"]
optional = [["{top}/fs/fabric/*/lib:/host/lib", "{top}/fs/old:/host/lib"], "{top}/fs/work"]

[environment]
ZEPHYR_NET = "z0"
ZEPHYR_TREE = {{ value = "1", when = "multi-node" }}
ZEPHYR_NEW = {{ value = "1", when = "rocm>=6" }}
ZEPHYR_OLD = {{ value = "1", when = "rocm<6" }}

[network]
interfaces = ["z0"]

[gpu]
runtime_flags = []

[caches]
node_local = "{top}/local"

[nodes.blue]
cores = 30
reserved_cores = "0,16"
threads_per_core = 2
gpus = 2
gpu_cores = ["17-31", "1-15"]
partitions = ["blue"]
memory_gib = 200

[launcher]
srun = ["--mpi=pmix"]
cpu_bind = "mask"

[launcher.refused]
torchrun = "the wind does not like it"

[job]
required = ["account", "qos"]
lines = ["--hint=nomultithread"]
gpus = "--gres=gpu:{{gpus}}"
exclusive = ["blue"]

[stage.nvme]
directory = "/local/$USER"
flag = "-C disk"
"""

HPCMOD = f"{sys.executable} -c 'from hpcmod.core.cli.main import main; main()'"

MASKS = ("0xfffe0000", "0xfffe")
"""15 cores starting at core 17 for GPU 0, 15 cores starting at core 1 for GPU 1."""


@pytest.fixture(scope="module")
def eb(stack: Stack, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> EasyBuild:
    """Toy/1.0 with a rocm-6.2 image, installed with the profile zephyr.toml, and file systems as in the profile."""
    top = tmp_path_factory.mktemp("zephyr")
    eb = EasyBuild(stack, top, top / "central")
    eb.central.mkdir()
    for place in ("fs/spool", "fs/fabric/2.1/lib", "fs/fabric/2.10/lib", "fs/old", "tree/work", "local"):
        (top / place).mkdir(parents=True)
    (top / "fs/fabric/2.10/lib/of-the-site").touch()
    (top / "fs/work").symlink_to(top / "tree/work")
    profile = top / "zephyr.toml"
    profile.write_text(ZEPHYR.format(top=top), encoding="utf-8")
    image = eb.central / "toy-rocm-6.2.sif"
    image.symlink_to(tiny_sif)
    installed(eb, write_easyconfig(top, sources=[image.name]), HPCMOD_SITE=str(profile))
    return eb


@pytest.fixture
def zephyr(eb: EasyBuild) -> Path:
    """The path of the site profile."""
    return eb.top / "zephyr.toml"


def test_a_machine_follows_from_its_file(zephyr: Path, eb: EasyBuild, lmod: ModuleTool) -> None:
    top = eb.top
    root = eb.prefix / "software/Toy/1.0"
    done = lmod(
        "module load Toy && echo $SINGULARITY_BINDPATH && "
        "echo $ZEPHYR_NET ${ZEPHYR_TREE-none} $ZEPHYR_NEW ${ZEPHYR_OLD-none} && singularity exec $SIF ls /host/lib",
        eb.modules,
    )
    binds, variables, seen = done.stdout.splitlines()
    assert binds.split(",") == [
        f"{top}/tree/work",
        f"{top}/fs/spool",
        f"{top}/fs/fabric/2.10/lib:/host/lib",
        f"{top}/fs/work",
        f"{root}/runscripts:/runscripts",
        f"{root}/user-software:/user-software",
    ]
    assert (variables, seen) == ("z0 none 1 none", "of-the-site")
    assert f"not bound, missing on this node: {top}/fs/gone" in " ".join(done.stderr.split())


def test_its_run_scripts_know_what_only_a_run_can_know(zephyr: Path, eb: EasyBuild, lmod: ModuleTool) -> None:
    script = (
        "module load Toy 2>/dev/null; singularity exec $SIF conda-python-distributed --hpcmod-explain | "
        "grep -o '^ZEPHYR[^ ]*' | sort | tr '\\n' ' '"
    )
    step = {
        "SLURM_JOB_ID": "1",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_NTASKS": "2",
        "SLURM_NNODES": "2",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
        "SLURM_TASKS_PER_NODE": "1(x2)",
        "SLURM_STEP_NODELIST": "z[1-2]",
        "SLURM_JOB_NODELIST": "z[1-2]",
    }
    assert lmod(script, eb.modules, **step).stdout == "ZEPHYR_NET=z0 ZEPHYR_NEW=1 ZEPHYR_TREE=1 "
    assert "ZEPHYR_TREE" not in lmod(script, eb.modules).stdout


def test_its_job_script_has_its_masks_flags_and_rules(zephyr: Path, lmod: ModuleTool) -> None:
    ask = f"{HPCMOD} job Toy -N 2 --site {zephyr} --dry-run"
    refused = lmod(f"{ask} -- train.py")
    assert refused.returncode == 2
    assert "every job on zephyr needs --account and --qos" in refused.stderr
    done = lmod(f"{ask} -A a1 -q q1 -t 10 --stage nvme -- train.py")
    assert done.returncode == 0, done.stderr
    for part in (
        "#SBATCH --account=a1",
        "#SBATCH --qos=q1",
        "#SBATCH --partition=blue",
        "#SBATCH --hint=nomultithread",
        "#SBATCH --gres=gpu:2",
        "--mpi=pmix",
        ",".join(MASKS),
        "/local/",
    ):
        assert part in done.stdout, part
    assert re.search(r"^#SBATCH (-C |--constraint=)disk", done.stdout, re.MULTILINE)
    no = lmod(f"{ask} -A a1 -q q1 -t 10 --launcher torchrun -- train.py")
    assert no.returncode != 0
    assert "the wind does not like it" in no.stderr


def test_it_can_be_looked_at(zephyr: Path, eb: EasyBuild, lmod: ModuleTool) -> None:
    found = json.loads(lmod(f"{HPCMOD} site binds --json --site {zephyr}").stdout)["binds"]
    verdicts = {one["source"].removeprefix(f"{eb.top}/"): (one["kept"], one["origin"]) for one in found}
    assert verdicts == {
        "fs/spool": (True, f"{zephyr}:10"),
        "fs/gone": (False, f"{zephyr}:10"),
        "fs/fabric/2.10/lib": (True, f"{zephyr}:11"),
        "fs/old": (False, f"{zephyr}:11"),
        "fs/work": (True, f"{zephyr}:11"),
        "tree/work": (True, f"{zephyr}:11"),
    }
    checked = lmod(f"{HPCMOD} site check {zephyr}")
    assert checked.returncode == 1
    assert f"fail bind {eb.top}/fs/gone: does not exist here" in checked.stdout
