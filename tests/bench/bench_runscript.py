"""What a run script adds before its program runs, beside a bash that does nothing.

No container is started: what is measured is what each rank pays on top of one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from hpcmod.model.plan import RunscriptSettings
from hpcmod.render.runscript import RUNSCRIPTS, render_runscript, render_wrapper
from hpcmod.resources import runscript_templates
from tests.bench.measure import Row, alternate
from tests.stack import Stack

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
SETTINGS = RunscriptSettings(
    module="bench/1",
    sif_variable="SIFBENCH",
    gpu_visibility=("ROCR_VISIBLE_DEVICES",),
    tunables=(("NCCL_SOCKET_IFNAME", "hsn"), ("NCCL_NET_GDR_LEVEL", "3")),
)
FLOOR = "bash -c 'exec true'"


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure with programs in the place of python and the runtime that end at once."""
    del stack, megabytes
    make_image(work)
    work_of = {name: partial(subprocess.run, argv, env=env, check=True) for name, argv, env in commands(work)}
    took = alternate(20 * rounds, work_of)
    for name, seconds in took.items():
        if name != FLOOR:
            above = f"{1000 * (seconds - took[FLOOR]):.2f} ms"
            yield Row(name, above, f"{FLOOR} {1000 * took[FLOOR]:.2f} ms", f"{seconds / took[FLOOR]:.2f}", "< 50 ms")


def make_image(root: Path) -> None:
    """Write the scripts, and what stands for python, its activation and the container runtime."""
    templates = runscript_templates()
    for name in RUNSCRIPTS:
        write_program(root / name, render_runscript(name, SETTINGS, templates=templates))
    write_program(root / "wrapper", render_wrapper("python", SETTINGS, templates=templates))
    write_program(root / "activate", "")
    for program in ("python", "singularity"):
        (root / program).symlink_to("/bin/true")


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def commands(root: Path) -> Iterator[tuple[str, list[str], Mapping[str, str]]]:
    """What is measured: name, command, and what it finds in its environment."""
    env = {"PATH": f"{root}:/usr/bin:/bin", "WITH_CONDA": f"source {root}/activate torch", "USER": "bench"}
    env["HPCMOD_CACHE_ROOT"] = str(root / "caches")
    yield FLOOR, ["bash", "-c", "exec true"], env
    yield "conda-python-simple", [f"{root}/conda-python-simple"], env
    yield "conda-python-distributed, alone", [f"{root}/conda-python-distributed"], env
    yield "conda-python-distributed, in a step", [f"{root}/conda-python-distributed"], {**env, **STEP}
    yield "run-in-env", [f"{root}/run-in-env", "python"], env
    yield "wrapper, outside", [f"{root}/wrapper"], {**env, "SIFBENCH": str(root / "activate")}
    yield "wrapper, inside", [f"{root}/wrapper"], {**env, "APPTAINER_CONTAINER": "/x.sif"}
