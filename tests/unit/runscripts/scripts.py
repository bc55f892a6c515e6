"""The rendered scripts on disk, run by the real bash in an environment that contains only what a test sets."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hpcmod.core.resources import runscript_files
from hpcmod.machine.values.site import RUNTIMES, Site
from hpcmod.machine.values.tables import Gpus
from hpcmod.modules.text.runscript import LIBEXEC, render_runscripts
from hpcmod.modules.values.install_record import link_of
from hpcmod.modules.values.plan import ContainerSettings, RunscriptSettings
from hpcmod.modules.values.versions import ChosenTunables
from tests import programs

SYSTEM_PATH = "/usr/bin:/bin"
DISTRIBUTED = "conda-python-distributed"
RANKS = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")
EIGHT = "0,1,2,3,4,5,6,7"
"""Value of the GPU variables that Slurm sets on a node with eight GPUs."""

FAKE_PYTHON = """#!/bin/bash
printf 'python=%s\\0' "$0"
printf 'argument=%s\\0' "$@"
/usr/bin/env -0
"""

PATIENT_PROGRAM = f"""#!{sys.executable}
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("ready", flush=True)
for _ in range(200):  # one long sleep would not end by a signal that comes just before it
    time.sleep(0.1)
"""
"""Prints "ready", and exits with status 5 on SIGTERM."""


@dataclass(frozen=True)
class Ran:
    """The result of a script; if it ends by running a fake program, also its arguments and environment."""

    status: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.stdout.split("\0") if line]

    @property
    def arguments(self) -> list[str]:
        return [line[len("argument=") :] for line in self.stdout.split("\0") if line.startswith("argument=")]

    @property
    def environment(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.lines if not line.startswith("argument="))


@lru_cache
def written(settings: RunscriptSettings) -> str:
    """Return a directory, removed when the tests end, with the files of a module that are no links."""
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory)
    write_runscripts(Path(directory, "runscripts"), settings)
    for name, text in runscript_files().items():
        if name.startswith(LIBEXEC):
            make_program(Path(directory, name), text)
    return directory


def hard_link(source: str, target: str) -> None:
    """Replace a file by a hard link, or by a copy on another file system."""
    Path(target).unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def write_runscripts(directory: Path, settings: RunscriptSettings) -> None:
    for name, text in render_runscripts(settings, templates=runscript_files()).items():
        make_program(directory / name, text)


SETTINGS = RunscriptSettings(
    module="PyTorch/2.7.1",
    sif_variable="SIFPYTORCH",
    site=Site(
        "lumi",
        gpu=Gpus(visibility=("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"), per_rank="one"),
    ),
    tunables=ChosenTunables((("NCCL_SOCKET_IFNAME", "hsn0,hsn1"), ("ODD_ONE", 'it\'s $(id) `id`\n"2"'))),
)


@dataclass(frozen=True)
class Scripts:
    """The run scripts and the wrappers of one module, below `root`."""

    root: Path

    def write(self, settings: RunscriptSettings, commands: Sequence[str] = ("python", "pip")) -> Scripts:
        """Write the scripts as hard links, because they are many: no test may write into one, but replace it."""
        shutil.copytree(written(settings), self.root, copy_function=hard_link, dirs_exist_ok=True)
        for name in (*commands, *RUNTIMES, "start-shell"):
            link = self.root / "bin" / name
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(link_of(f"bin/{name}"))
        return self

    def change(self, **settings: Any) -> None:
        """Write them again with other settings than SETTINGS, of the machine or of the image."""
        of_image = {name: settings.pop(name) for name in ContainerSettings._fields if name in settings}
        self.write(SETTINGS._replace(container=ContainerSettings(**of_image), **settings))

    def change_site(self, **tables: Any) -> None:
        """Write them again for a machine with other tables than that of SETTINGS."""
        self.change(site=SETTINGS.site._replace(**tables))

    def __call__(
        self,
        name: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        path: str = SYSTEM_PATH,
        cwd: Path | None = None,
    ) -> Ran:
        """Run runscripts/NAME or bin/NAME; its environment has PATH, USER, a cache root and the given variables."""
        script = self.root / ("bin" if (self.root / "bin" / name).exists() else "runscripts") / name
        given = {"PATH": path, "HPCMOD_CACHE_ROOT": str(self.root / "caches"), "USER": "alice", **(env or {})}
        done = subprocess.run(
            [str(script), *arguments],
            env=given,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


def make_program(path: Path, text: str = FAKE_PYTHON) -> Path:
    """Write a program: by default a Python that prints its arguments and environment."""
    return programs.make_program(path, text)


def task(rank: int, layout: tuple[int, ...] = (3, 1), /, **more: str) -> dict[str, str]:
    """Return the environment that srun (Slurm 22.05) gives a task; `layout` is the number of tasks on each node."""
    node, local = [(node, local) for node, tasks in enumerate(layout) for local in range(tasks)][rank]
    step = {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": "0",
        "SLURM_STEPID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(node),
        "SLURM_NTASKS": str(sum(layout)),
        "SLURM_NPROCS": str(sum(layout)),
        "SLURM_STEP_NUM_TASKS": str(sum(layout)),
        "SLURM_STEP_NUM_NODES": str(len(layout)),
        "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, layout)),
        "SLURM_TASKS_PER_NODE": "9(x9)",
        "SLURM_STEP_NODELIST": "nid[001-002]",
        "SLURM_JOB_NODELIST": "nid[000-009]",
        "SLURM_NODELIST": "nid[000-009]",
        "SLURMD_NODENAME": f"nid{node + 1:03}",
    }
    return {**step, **more}


BATCH = {
    "SLURM_JOB_ID": "4711",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_NPROCS": "4",
    "SLURM_TASKS_PER_NODE": "3,1",
    "SLURM_JOB_NODELIST": "nid[001-002]",
    "SLURM_NODELIST": "nid[001-002]",
}
"""The environment of a batch script of the same job."""


class Rank:
    """Runs a rank with the given environment."""

    def __init__(self, scripts: Scripts, path: str) -> None:
        self.scripts, self.path = scripts, path

    def __call__(self, env: dict[str, str], *arguments: str) -> Ran:
        return self.scripts(DISTRIBUTED, *arguments, env=env, path=self.path)

    def sees(self, env: dict[str, str], *names: str) -> tuple[str | None, ...]:
        """Run the rank; return variables as python sees them, None if they are not set."""
        ran = self(env, "x.py")
        assert ran.status == 0, ran.stderr
        return tuple(ran.environment.get(name) for name in names)
