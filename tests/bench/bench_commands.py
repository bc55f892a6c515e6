"""Short commands with one installed module, as users wait for them, compared with a Python that only imports click."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.bench_module import install_small
from tests.bench.measure import Row, alternate, must
from tests.stack import CHECKOUT, Stack

TITLE = "Short commands"
AIM = "<= 2.5"
COMMANDS = {
    "--help": ("--help",),
    "ls": ("ls",),
    "info": ("info", "Toy"),
    "search": ("search", "Toy"),
    "job": ("job", "Toy", "-N", "4", "--dry-run", "--", "train.py"),
    "launch": ("launch", "--dry-run", "--", "train.py"),
    "lint": ("lint", CHECKOUT / "tests/jobs/golden/lumi-3.sh"),
}
ALLOCATION = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_PARTITION": "standard-g"}


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure the commands in alternation."""
    del megabytes
    eb = install_small(stack, work, "Toy", HPCMOD_SITE="lumi")
    (work / "train.py").write_text("import torch\n")
    own = {"HPCMOD_SITE": "lumi", "SBATCH_ACCOUNT": "p", "MODULEPATH": str(eb.modules), **ALLOCATION}
    run = partial(must, env=stack.environment(work, **own), cwd=work)
    hpcmod = stack.python.parent / "hpcmod"
    took = alternate(4 * rounds, {
        **{name: partial(run, [hpcmod, *words]) for name, words in COMMANDS.items()},
        "python": partial(run, [stack.python, "-c", "import click"]),
    })  # fmt: skip
    for name in COMMANDS:
        beside = f"python with click {1000 * took['python']:.0f} ms"
        yield Row(name, f"{1000 * took[name]:.0f} ms", beside, f"{took[name] / took['python']:.2f}", AIM)
