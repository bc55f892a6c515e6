"""Copies of one file on 4 and 8 virtual nodes, by each way of stage-image, from the call until all copies are verified.

All virtual nodes share the cores and the disk of this machine, so what a network and a parallel file system would gain
does not show: only what each way costs. The bytes read from the shared file are those that the nodes' programs ask for.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from pathlib import Path

from hpcmod.model.plan import RunscriptSettings
from hpcmod.render.runscript import render_runscript
from hpcmod.resources import runscript_templates
from tests.bench.measure import Row
from tests.stack import Cluster, Stack, start_cluster, stop_cluster

TITLE = "Staging of one file on virtual nodes (shared cores and disk)"
WAYS = ("copy", "sbcast", "tree")
JOB = """#!/bin/bash
export SIFBENCH={work}/bench.sif
began=${{EPOCHREALTIME/[.,]/}}
staged=$({work}/stage-image --by {way} {local}) && [[ $staged ]] || exit
echo "seconds $((${{EPOCHREALTIME/[.,]/}} - began))"
"""


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure all ways in turn, for each number of nodes."""
    work.chmod(0o755)
    with (work / "bench.sif").open("wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(1_000_000))
    settings = RunscriptSettings("bench/1", "SIFBENCH")
    script = render_runscript("stage-image", settings, templates=runscript_templates())
    (work / "stage-image").write_text(script)
    (work / "stage-image").chmod(0o755)
    for nodes in (4, 8):
        cluster = start_cluster(stack, f"bench-stage-{nodes}-{os.getpid()}", "-n", str(nodes))
        try:
            taken: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in WAYS:
                    taken[way].append(_measure(cluster, work, way, nodes))
        finally:
            stop_cluster(cluster)
        plain = statistics.median(taken["copy"])
        for way in WAYS:
            seconds = statistics.median(taken[way])
            spread = f"{min(taken[way]):.1f} to {max(taken[way]):.1f}"
            what = f"{nodes} nodes, {megabytes} MB: {way}"
            yield Row(what, f"{seconds:.1f} s ({spread})", f"copy {plain:.1f} s", f"{seconds / plain:.2f}")


def _measure(cluster: Cluster, work: Path, way: str, nodes: int) -> float:
    """Run a job that stages the file, and return the seconds that this took."""
    (work / "job.sh").write_text(JOB.format(work=work, way=way, local=cluster.dir / "local"))
    words = ("sbatch", "--wait", f"-N{nodes}", "--ntasks-per-node=1", "-o", "out", "job.sh")
    done = cluster(*words, cwd=work, timeout=580)
    output = (work / "out").read_text()
    if done.returncode or "seconds " not in output:
        raise SystemExit(f"{way} on {nodes} nodes failed:\n{done.stdout}{done.stderr}{output}")
    return int(output.partition("seconds ")[2].split()[0]) / 1e6
