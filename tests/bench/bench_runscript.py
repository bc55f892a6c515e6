"""Time that a run script takes before its program starts, compared with a bash that does nothing.

No container is started, so this is what each rank pays in addition to the container.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from hpcmod.machine.machine import load_site
from hpcmod.modules.values.plan import make_plan
from tests.bench.measure import Row, alternate
from tests.plans import FACTS, SPEC
from tests.stack import Stack
from tests.unit.runscripts.scripts import Scripts, write_runscripts

TITLE = "Start-up of the run scripts, without the container"
STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "3",
    "SLURM_NODEID": "0",
    "SLURM_NTASKS": "8",
    "SLURM_STEP_TASKS_PER_NODE": "8",
    "SLURM_STEP_NODELIST": "nid[005023-005026]",
    "ROCR_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
}
ON_LUMI = make_plan(FACTS, load_site("lumi", {}), SPEC).runscripts
SETTINGS = ON_LUMI._replace(
    module="bench/1", sif_variable="SIFBENCH", container=ON_LUMI.container._replace(python_bin="")
)
FLOOR = "bash -c 'exec true'"
LUMI = """#!/bin/bash
sleep 2
rm -rf "$HPCMOD_CACHE_ROOT/old" && mkdir -p "$HPCMOD_CACHE_ROOT/old"
sleep 2
taskset -p $$ >/dev/null
MASTER_ADDR=$(python3 -c 'import argparse, sys; print(sys.argv[1].split(",")[0])' "$SLURM_STEP_NODELIST")
export MASTER_ADDR RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS MASTER_PORT=29500
exec python
"""
"""Stand-in for LUMI's conda-python-distributed (PyTorch 2.7.1, August 2025): it waits for the same programs."""


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure with a python and a container runtime that exit at once."""
    del stack, megabytes
    make_image(work)
    work_of = {name: partial(run, argv, env) for name, argv, env in commands(work)}
    took = alternate(20 * rounds, work_of)
    lumi = partial(run, [f"{work}/lumi"], {**environment(work), **STEP})
    took.update(alternate(rounds, {"the shape of LUMI's script, in a step": lumi}))
    for name, seconds in took.items():
        if name != FLOOR:
            above = f"{1000 * (seconds - took[FLOOR]):.2f} ms"
            aim = "" if "LUMI" in name else "< 50 ms"
            yield Row(name, above, f"{FLOOR} {1000 * took[FLOOR]:.2f} ms", f"{seconds / took[FLOOR]:.2f}", aim)


def run(argv: list[str], env: Mapping[str, str]) -> None:
    """Run a command; drop its warnings about LUMI's binds, which do not exist here."""
    subprocess.run(argv, env=env, check=True, stderr=subprocess.DEVNULL)


def make_image(root: Path) -> None:
    """Write the scripts, and stand-ins for python, its activation and the container runtime."""
    (root / "caches").mkdir(mode=0o1755)  # sticky, like /tmp, where most machines have the caches
    write_runscripts(root, SETTINGS)
    Scripts(root / "module").write(SETTINGS)
    write_program(root / "lumi", LUMI)
    write_program(root / "activate", "")
    for program in ("python", "singularity"):
        (root / program).symlink_to("/bin/true")


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def environment(root: Path) -> dict[str, str]:
    """Return the environment of every script."""
    env = {"PATH": f"{root}:/usr/bin:/bin", "WITH_CONDA": f"source {root}/activate torch", "USER": "bench"}
    return {**env, "HPCMOD_CACHE_ROOT": str(root / "caches")}


def commands(root: Path) -> Iterator[tuple[str, list[str], Mapping[str, str]]]:
    """Yield what to measure: name, command and environment."""
    env = environment(root)
    distributed = f"{root}/conda-python-distributed"
    yield FLOOR, ["bash", "-c", "exec true"], env
    yield "conda-python-simple", [f"{root}/conda-python-simple"], env
    yield "conda-python-distributed, alone", [distributed], env
    yield "conda-python-distributed, in a step", [distributed], {**env, **STEP}
    one = {**env, **STEP, "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_LOCALID": "0"}
    yield "conda-python-distributed --launcher torchrun", [distributed, "--launcher", "torchrun"], one
    yield (
        "conda-python-distributed --debug rccl",
        [distributed, "--debug", "rccl"],
        {**one, "HPCMOD_DEBUG_DIR": str(root)},
    )
    yield "run-in-env", [f"{root}/run-in-env", "python"], env
    yield "wrapper, outside", [f"{root}/module/bin/python"], {**env, "SIFBENCH": str(root / "activate")}
    yield "wrapper, inside", [f"{root}/module/bin/python"], {**env, "APPTAINER_CONTAINER": "/x.sif"}
    yield "singularity, through the module's wrapper", [f"{root}/module/bin/singularity", "exec", "x"], env
