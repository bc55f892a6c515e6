"""get-master compared with `scontrol show hostnames`, on node lists of the largest machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hpcmod.core.resources import runscript_files
from hpcmod.modules.values.plan import RunscriptSettings
from tests.bench.measure import Row, alternate
from tests.stack import Stack
from tests.unit.runscripts.scripts import write_runscripts

TITLE = "First host of 9,408 nodes"
NODES = 9408
LOOKS = 20
LOOP = 'list=$(</dev/stdin); for ((look = 0; look < $1; look++)); do first_host "$list"; done'


def host_lists() -> Iterator[tuple[str, str]]:
    """Yield node lists as Slurm writes them: the best case and a bad one."""
    numbers = [f"{number:06}" for number in range(1, 2 * NODES + 1)]
    yield "one range", f"nid[{numbers[0]}-{numbers[NODES - 1]}]"
    yield "every second node", f"nid[{','.join(numbers[::2])}]"


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure only the lookup, in a running shell as in conda-python-distributed, and the whole command."""
    del stack, megabytes
    settings = RunscriptSettings(module="bench/1", sif_variable="SIFBENCH")
    script = work / "get-master"
    write_runscripts(work, settings)
    (work / "slurm.conf").write_text("ClusterName=x\nSlurmctldHost=localhost\n")
    for kind, hosts in host_lists():
        took = alternate(5 * rounds, {
            "looks": partial(look, hosts, LOOKS),
            "none": partial(look, hosts, 0),
            "command": partial(run, ["bash", str(script), hosts]),
            "scontrol": partial(run, ["scontrol", "show", "hostnames", hosts], work / "slurm.conf"),
        })  # fmt: skip
        one = (took["looks"] - took["none"]) / LOOKS
        yield _row(f"{kind}, in a running shell", one, took["scontrol"], "< 5 ms")
        yield _row(f"{kind}, get-master", took["command"], took["scontrol"], "")


def look(hosts: str, times: int) -> None:
    script = f"{runscript_files()['lib/common.bash']}\n{LOOP}"
    subprocess.run(["bash", "-uc", script, "bash", str(times)], input=hosts, text=True, check=True)


def run(argv: list[str], slurm_conf: Path = Path("/dev/null")) -> None:
    env = {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(slurm_conf)}
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True)


def _row(what: str, ours: float, theirs: float, aim: str) -> Row:
    return Row(what, f"{1000 * ours:.2f} ms", f"scontrol {1000 * theirs:.1f} ms", f"{ours / theirs:.2f}", aim)
