"""Short commands with one installed module, as users wait for them, compared with a Python that only imports click."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.bench_install import OURS
from tests.bench.measure import Row, alternate, must
from tests.stack import EasyBuild, Stack

TITLE = "Short commands"
AIM = "<= 2.5"
COMMANDS = {
    "--help": ("--help",),
    "ls": ("ls",),
    "info": ("info", "Toy"),
    "search": ("search", "Toy"),
    "job": ("job", "Toy", "-N", "4", "--dry-run", "--", "train.py"),
}


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure the commands in alternation."""
    del megabytes
    eb = EasyBuild(stack, work, stack.tiny_sif.parent)
    sha256 = must(["sha256sum", stack.tiny_sif]).stdout.split()[0]
    recipe = work / "Toy-1.eb"
    recipe.write_text(OURS.format(name="Toy", image=stack.tiny_sif.name, sha256=sha256, mode="copy"))
    (work / "train.py").write_text("import torch\n")
    installed = eb(recipe, HPCMOD_SITE="lumi")
    if installed.returncode:
        raise SystemExit(installed.stdout)
    env = stack.environment(work, HPCMOD_SITE="lumi", SBATCH_ACCOUNT="p", MODULEPATH=str(eb.modules))
    run = partial(must, env=env, cwd=work)
    hpcmod = stack.python.parent / "hpcmod"
    took = alternate(4 * rounds, {
        **{name: partial(run, [hpcmod, *words]) for name, words in COMMANDS.items()},
        "python": partial(run, [stack.python, "-c", "import click"]),
    })  # fmt: skip
    for name in COMMANDS:
        beside = f"python with click {1000 * took['python']:.0f} ms"
        yield Row(name, f"{1000 * took[name]:.0f} ms", beside, f"{took[name] / took['python']:.2f}", AIM)
