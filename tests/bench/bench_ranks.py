"""Starting the ranks of one node that import torch: time until all have imported it, and their memory.

All variants run `conda-python-distributed` as Slurm would start its tasks. Memory is the proportional set size (PSS) of
all processes, including the container runtime and its FUSE mounts. Cold: the image is not in the page cache.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from hpcmod.modules.values.plan import RunscriptSettings
from tests.bench.measure import Row, must
from tests.stack import Stack
from tests.unit.runscripts.scripts import write_runscripts

TITLE = "Starting the ranks of one node with torch (aim with 8 ranks: a third of the time, 0.35 of the memory)"
COUNTS = (1, 2, 4, 8, 16)
MARK = "HPCMOD_BENCH_RANKS"
"""Environment variable that marks the processes of one measurement."""

WAYS = ("plain", "joined instance", "--spawn", "one-per-node")
PROGRAM = """
import os, sys, time
import torch
open(f"{sys.argv[1]}/ready-{os.environ['RANK']}", "w").close()
while not os.path.exists(f"{sys.argv[1]}/go"):
    time.sleep(0.05)
"""


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure all variants in alternation, for each number of ranks."""
    del megabytes
    settings = RunscriptSettings("bench/1", "SIFBENCH")
    write_runscripts(work / "scripts", settings)
    (work / "train.py").write_text(PROGRAM)
    for cold in (False, True):
        for count in COUNTS:
            found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
            for number in range(rounds):
                for way in WAYS:
                    found[way].append(_measure(stack, work, way, count, cold, f"{cold}-{count}-{number}"))
            yield from _compare(found, f"{count} rank{'s'[count == 1 :]}, {'cold' if cold else 'warm'}")


def _compare(found: dict[str, list[tuple[float, float]]], what: str) -> Iterator[Row]:
    plain_seconds, plain_memory = (statistics.median(values) for values in zip(*found["plain"]))
    for way, measured in found.items():
        seconds, memory = (statistics.median(values) for values in zip(*measured))
        plain = f"plain {plain_seconds:.1f} s, {plain_memory:.0f} MB"
        ratio = f"{seconds / plain_seconds:.2f}, {memory / plain_memory:.2f}"
        yield Row(f"{what}: {way}", f"{seconds:.1f} s, {memory:.0f} MB", plain, ratio)


def _measure(stack: Stack, work: Path, way: str, count: int, cold: bool, name: str) -> tuple[float, float]:
    """Start the ranks; return the seconds until all are ready, and their memory in megabytes."""
    image, scripts = stack.torch_sif, work / "scripts"
    instance = f"hpcmod-bench-{os.getpid()}"  # a killed run leaves its own
    place = work / f"{way.replace(' ', '-')}-{name}"
    place.mkdir()
    binds = ("--bind", f"{scripts}:/runscripts", "--bind", str(work))
    env = {**stack.environment(Path.home()), "HPCMOD_CACHE_ROOT": str(work / "caches"), "APPTAINER_QUIET": "1"}
    env = {**env, MARK: str(place), "LC_ALL": "C"}
    if cold:
        must(["dd", f"if={image}", "iflag=nocache", "count=0", "status=none"])
    inside = [str(stack.apptainer), "exec", *binds, str(image)]
    began = time.perf_counter()
    if way == "joined instance":
        must([stack.apptainer, "instance", "start", *binds, image, instance], env=env)
        inside = [str(stack.apptainer), "exec", f"instance://{instance}"]
    first = [str(scripts / "one-per-node")] if way == "one-per-node" else []
    options = ["--spawn"] if way == "--spawn" else []
    argv = [*first, *inside, "/runscripts/conda-python-distributed", *options, str(work / "train.py"), str(place)]
    tasks = [{**env, **_task(rank, count, str(place))} for rank in range(count)]
    ranks = [subprocess.Popen(argv, env=task, stdin=subprocess.DEVNULL) for task in tasks]
    while len(list(place.glob("ready-*"))) < count:
        time.sleep(0.02)
        if any(rank.poll() is not None for rank in ranks):
            raise SystemExit(f"{way}: a rank exited early")
    seconds = time.perf_counter() - began
    memory = sum(map(_memory, _processes(str(place))))
    (place / "go").touch()
    for rank in ranks:
        rank.wait()
    if way == "joined instance":
        must([stack.apptainer, "instance", "stop", instance], env=env)
    return seconds, memory


def _task(rank: int, count: int, name: str) -> dict[str, str]:
    """Return the variables of a Slurm task on a node that runs all ranks."""
    job = str(zlib.crc32(name.encode()) % 1000000)
    numbers = {"PROCID": rank, "LOCALID": rank, "NODEID": 0, "NTASKS": count, "STEP_NUM_TASKS": count}
    more = {"STEP_NUM_NODES": "1", "STEP_TASKS_PER_NODE": str(count), "JOB_ID": job, "STEP_ID": "0"}
    more["STEP_NODELIST"] = "localhost"
    return {f"SLURM_{key}": str(value) for key, value in {**numbers, **more}.items()}


def _processes(mark: str) -> set[int]:
    """Return the processes of a measurement: marked ones, and their descendants, whose environment may be empty."""
    parents, found = {}, set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if f"{MARK}={mark}\0".encode() in (path / "environ").read_bytes():
                found.add(int(path.name))
        except OSError:
            continue
    while more := {process for process, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _memory(process: int) -> float:
    """Return the proportional set size of a process in megabytes; 0 if it cannot be read."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000
