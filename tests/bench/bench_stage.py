"""Copying one file to 4 and 8 virtual nodes with stage-image, or with cp on each node, until all copies are verified.

All virtual nodes share the cores and the disk of this machine, so this shows only what each method costs, not what a
network and a parallel file system would gain. The bytes read from the shared file are those requested by programs, in
one more, untimed run of each method under strace, with a file of at most 100 MB.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from pathlib import Path

from hpcmod.model.plan import RunscriptSettings
from hpcmod.render.runscript import render_runscript
from hpcmod.resources import runscript_templates
from tests.bench.measure import Row, traced_bytes
from tests.stack import Cluster, Stack, start_cluster, stop_cluster

TITLE = "Staging one file on virtual nodes (shared cores and disk)"
TIMED, COUNTED = "timed.sif", "counted.sif"
WAYS = {
    "cp": "srun --ntasks-per-node=1 bash -c 'cd {local} && cp $SIFBENCH copy && sha256sum copy; rm copy' >/dev/null",
    "stage-image": "staged=$({work}/stage-image {local}) && [[ $staged ]]",
}
TRACED = ("cp", "python3", "sha256sum")
"""Programs that read the shared file."""
TRACE = """#!/bin/bash
PATH=${{PATH#{work}/traced:}}
calls=read,pread64,sendfile,copy_file_range
exec strace -f -y -qq -e trace=$calls -o {work}/trace.$SLURMD_NODENAME.$$ "${{0##*/}}" "$@"
"""
JOB = """#!/bin/bash
export SIFBENCH={work}/{file} PATH={programs}$PATH
began=${{EPOCHREALTIME/[.,]/}}
{command} || exit
echo "seconds $((${{EPOCHREALTIME/[.,]/}} - began))"
"""


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure all methods in alternation, for each number of nodes."""
    work.chmod(0o755)
    for name, size in ((TIMED, megabytes), (COUNTED, min(megabytes, 100))):
        with (work / name).open("wb") as file:
            for _ in range(size):
                file.write(os.urandom(1_000_000))
    settings = RunscriptSettings("bench/1", "SIFBENCH")
    script = render_runscript("stage-image", settings, templates=runscript_templates())
    (work / "stage-image").write_text(script)
    (work / "stage-image").chmod(0o755)
    (work / "traced").mkdir()
    for name in TRACED:
        (work / "traced" / name).write_text(TRACE.format(work=work))
        (work / "traced" / name).chmod(0o755)
    for nodes in (4, 8):
        cluster = start_cluster(stack, f"bench-stage-{nodes}-{os.getpid()}", "-n", str(nodes))
        try:
            taken: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in WAYS:
                    taken[way].append(_measure(cluster, work, way, nodes))
            read = {way: _count_reads(cluster, work, way, nodes) for way in WAYS}
        finally:
            stop_cluster(cluster)
        plain = statistics.median(taken["cp"])
        for way in WAYS:
            seconds = statistics.median(taken[way])
            spread = f"{min(taken[way]):.1f} to {max(taken[way]):.1f}"
            what = f"{nodes} nodes, {megabytes} MB: {way}"
            yield Row(what, f"{seconds:.1f} s ({spread})", f"cp {plain:.1f} s", f"{seconds / plain:.2f}")
            times = read[way] / (work / COUNTED).stat().st_size
            yield Row(f"{what}: bytes read from the shared file", f"{times:.2f} x", "its size", "")


def _count_reads(cluster: Cluster, work: Path, way: str, nodes: int) -> int:
    """Return how many bytes of the shared file the programs of a job read."""
    _measure(cluster, work, way, nodes, file=COUNTED, programs=f"{work}/traced:")
    for line in (work / "out").read_text().splitlines():
        if " itself" in line:  # explains why more than its size was read
            print(f"{way} on {nodes} nodes: {line}")
    traces = list(work.glob("trace.*"))
    file = str(work / COUNTED)
    read = sum(traced_bytes(trace, file)[0] for trace in traces)
    for trace in traces:
        trace.unlink()
    return read


def _measure(cluster: Cluster, work: Path, way: str, nodes: int, *, file: str = TIMED, programs: str = "") -> float:
    """Run a job that stages the file, and return how many seconds staging took."""
    command = WAYS[way].format(work=work, local=cluster.dir / "local")
    (work / "job.sh").write_text(JOB.format(work=work, file=file, command=command, programs=programs))
    words = ("sbatch", "--wait", f"-N{nodes}", "--ntasks-per-node=1", "-o", "out", "job.sh")
    done = cluster(*words, cwd=work, timeout=580)
    output = (work / "out").read_text()
    if done.returncode or "seconds " not in output:
        raise SystemExit(f"{way} on {nodes} nodes failed:\n{done.stdout}{done.stderr}{output}")
    return int(output.partition("seconds ")[2].split()[0]) / 1e6
