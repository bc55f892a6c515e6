"""hpcmod check on 64 nodes: the time that the command itself takes.

The nodes are simulated: a script in place of srun starts 64 processes on this machine, 8 at a time, or prints their
recorded answers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hpcmod.model.nodes.question import make_question
from hpcmod.resources import node_program
from tests.bench.measure import Row, alternate, must
from tests.stack import Stack

TITLE = "Check of 64 simulated nodes"
AIM = "< 5 s"
NODES = 64

SRUN = """#!/bin/bash
# Acts as srun on 64 nodes, all of them this machine.
while [[ $1 == -* ]]; do shift; done
export SLURM_PROCID SLURMD_NODENAME
for ((SLURM_PROCID = 0; SLURM_PROCID < 64; SLURM_PROCID++)); do
  printf -v SLURMD_NODENAME 'nid%03d' "$SLURM_PROCID"
  "$@" &
  ((SLURM_PROCID % 8 != 7)) || wait
done
"""


RECORDED = """#!/bin/bash
# Stands for srun on 64 nodes that answer at once.
exec cat answers
"""


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure the whole command, the job step alone, and the command with recorded answers, in alternation."""
    del megabytes
    for name, text in (("bin", SRUN), ("recorded", RECORDED)):
        (work / name).mkdir()
        (work / name / "srun").write_text(text)
        (work / name / "srun").chmod(0o755)
    srun = work / "bin" / "srun"
    job = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": str(NODES), "HPCMOD_SITE": "generic"}
    env = {"PATH": f"{srun.parent}:/usr/bin:/bin", "HOME": str(work), **job}
    run = partial(must, env=env, cwd=work)
    hpcmod, recorded = stack.python.parent / "hpcmod", {**env, "PATH": f"{work}/recorded:/usr/bin:/bin"}
    asked = json.dumps({**make_question([]), "tools": True})
    (work / "answers").write_text(run([srun, "python3", "-c", node_program(), asked]).stdout)
    took = alternate(rounds, {
        "own": partial(must, [hpcmod, "check"], env=recorded, cwd=work),
        "check": partial(run, [hpcmod, "check"]),
        "step": partial(run, [srun, "python3", "-c", node_program(), asked]),
    })  # fmt: skip
    beside = f"the step alone {took['step']:.1f} s on {os.cpu_count()} cores"
    yield Row("64 processes", f"{took['check']:.1f} s", beside, f"{took['check'] / took['step']:.2f}")
    yield Row("64 recorded answers: own time", f"{took['own']:.2f} s", "-", "-", AIM)
