"""hpcmod job: time to write a batch script, and to lint one, compared with starting Python."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.measure import Row, alternate, must
from tests.stack import CHECKOUT, Stack

TITLE = "Batch scripts"
AIM = "< 0.5 s"


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure whole commands as a user waits for them, without a Slurm to query."""
    del megabytes
    script = CHECKOUT / "tests" / "jobs" / "golden" / "lumi-3.sh"
    allocation = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_PARTITION": "standard-g"}
    env = {"PATH": "/usr/bin:/bin", "HOME": str(work), "HPCMOD_SITE": "lumi", "SBATCH_ACCOUNT": "p", **allocation}
    hpcmod = stack.python.parent / "hpcmod"
    run = partial(must, env=env, cwd=work)
    took = alternate(4 * rounds, {
        "job": partial(run, [hpcmod, "job", "PyTorch", "-N", "4", "--dry-run", "--", "train.py"]),
        "launch": partial(run, [hpcmod, "launch", "--dry-run", "--", "train.py"]),
        "lint": partial(run, [hpcmod, "lint", script]),
        "python": partial(run, [stack.python, "-c", "import click"]),
    })  # fmt: skip
    for name, what in (("job", "write a script"), ("launch", "print an srun"), ("lint", "lint a script")):
        beside = f"python with click {1000 * took['python']:.0f} ms"
        yield Row(what, f"{1000 * took[name]:.0f} ms", beside, f"{took[name] / took['python']:.1f}", AIM)
