"""Converting OCI images to SIF: time, memory, temporary space and size, compared with Apptainer and other tool chains.

HPCMOD_BENCH_DIR    directory of the test images (30 GB), which are kept; by default they are made again for each run
HPCMOD_BENCH_IMAGES images to measure: real-gzip,real-zstd,one-gzip,tiny-gzip,layers-gzip,huge-gzip
HPCMOD_BENCH_CORES  numbers of cores to use: 2,1
HPCMOD_BENCH_TOOLS  measure, in addition to ours, only the alternatives whose name contains this text

Temporary space is the largest drop in free space of the file system, so nothing else should write there meanwhile.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import oci_images
from tests.bench.measure import Row
from tests.registry import run_registry
from tests.stack import Stack

TITLE = "Converting an OCI image to a SIF"
IMAGES = "real-gzip,real-zstd,one-gzip,tiny-gzip,layers-gzip,huge-gzip"
OURS, PULL, ZSTD = "hpcmod, zstd 3", "apptainer pull (gzip 9)", "apptainer build, zstd 3"
WATCHER = """
import resource, subprocess, sys
ended = subprocess.call(["sh", "-c", sys.argv[1]], stdout=sys.stderr)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(ended)
"""
"""Runs a command; prints its CPU seconds and peak memory in MB. Small, because a child starts with the memory of its
parent.
"""


@dataclass(frozen=True)
class Cost:
    """Cost of one run; times in seconds, sizes in MB."""

    wall: float
    cpu: float
    memory: float
    temporary: float
    output: float

    def __str__(self) -> str:
        figures = f"{self.wall:.1f} s, CPU {self.cpu:.1f} s, memory {self.memory:.0f} MB"
        return f"{figures}, temporary {self.temporary:.0f} MB, SIF {self.output:.0f} MB"


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure each image on each number of cores; `megabytes` is not used."""
    del megabytes
    kept = Path(os.environ.get("HPCMOD_BENCH_DIR") or work / "images")
    kept.mkdir(parents=True, exist_ok=True)
    with run_registry(work / "registry") as registry:
        for name in os.environ.get("HPCMOD_BENCH_IMAGES", IMAGES).split(","):
            layout = oci_images.make(name.split("-")[0], kept, name.split("-")[1])
            registry.push_layout(layout, name, "1")
            for cores in os.environ.get("HPCMOD_BENCH_CORES", "2,1").split(","):
                ways = chosen(tools(stack, layout, f"{registry.host}/{name}:1"))
                found = measure(ways, work, int(cores), rounds)
                yield from compare(f"{name}, {cores} cores", found)


def chosen(ways: Mapping[str, str]) -> Mapping[str, str]:
    """Return ours and the alternatives selected with HPCMOD_BENCH_TOOLS."""
    word = os.environ.get("HPCMOD_BENCH_TOOLS", "")
    return {name: command for name, command in ways.items() if name == OURS or word in name}


def tools(stack: Stack, layout: Path, reference: str) -> Mapping[str, str]:
    """Return the shell command of each alternative; it writes `$OUT`, and gets an empty `$TMPDIR` of its own."""
    apptainer, source = f"{stack.apptainer}", f"oci:{layout}"
    fast = "--mksquashfs-args '-comp zstd -Xcompression-level 3'"
    hpcmod = f"{sys.executable} -c 'from hpcmod.core.cli.main import main; main()' fetch --output $OUT --compression"
    found = {
        OURS: f"{hpcmod} zstd:3 {source}",
        "hpcmod, gzip 6": f"{hpcmod} gzip:6 {source}",
        "hpcmod from the registry, zstd 3": f"{hpcmod} zstd:3 --no-cache docker://{reference}",
        PULL: f"APPTAINER_NOHTTPS=1 {apptainer} pull $OUT docker://{reference}",
        "apptainer build, gzip 9": f"{apptainer} build $OUT {source}",
        ZSTD: f"{apptainer} build {fast} $OUT {source}",
    }
    chain = f"umoci unpack --rootless --image {layout}:latest $TMPDIR/bundle && " + _pack("$TMPDIR/bundle/rootfs")
    if shutil.which("umoci") and layout.name.endswith("-gzip"):  # umoci does not support zstd
        found["umoci + mksquashfs, zstd 3"] = chain
    if shutil.which("umoci") and shutil.which("skopeo"):
        copy = (
            f"skopeo copy --dest-tls-verify=false --src-tls-verify=false docker://{reference} oci:$TMPDIR/layout:latest"
        )
        if layout.name.endswith("-gzip"):
            found["skopeo + umoci + mksquashfs, zstd 3"] = f"{copy} && {chain.replace(str(layout), '$TMPDIR/layout')}"
    layers = [path for path in (layout / "blobs/sha256").iterdir() if path.stat().st_size > 100_000]
    if len(layers) == 1 and layout.name.endswith("-gzip"):
        found["mksquashfs -tar, zstd 3"] = f"gunzip <{layers[0]} | {_pack('-')} -tar"
    return found


def _pack(source: str) -> str:
    return f"mksquashfs {source} $OUT -quiet -no-progress -all-root -comp zstd -Xcompression-level 3"


def measure(commands: Mapping[str, str], work: Path, cores: int, rounds: int) -> Mapping[str, Cost]:
    """Run each alternative once per round; return the median of the times, and the maximum of the rest."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            costs[name].append(cost_of(command, work, cores))
    return {name: _median(found) for name, found in costs.items()}


def _median(costs: Sequence[Cost]) -> Cost:
    wall, cpu = (statistics.median(times) for times in ([c.wall for c in costs], [c.cpu for c in costs]))
    sizes = (max(sizes) for sizes in zip(*((c.memory, c.temporary, c.output) for c in costs)))
    return Cost(wall, cpu, *sizes)


def cost_of(command: str, work: Path, cores: int) -> Cost:
    """Run a command so that everything it leaves on disk is in a directory that is removed afterwards."""
    place = work / "run"
    place.mkdir()
    out = place / "out.sif"
    places = ("TMPDIR", "APPTAINER_TMPDIR", "APPTAINER_CACHEDIR", "XDG_CACHE_HOME", "HPCMOD_CACHE")
    for name in places:
        (place / name).mkdir()
    (place / "auth.json").write_text("{}")
    own = {"OUT": str(out), "REGISTRY_AUTH_FILE": str(place / "auth.json")}
    env = {**os.environ, **{name: str(place / name) for name in places}, **own}
    allowed = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))
    argv = ["taskset", "-c", allowed, sys.executable, "-c", WATCHER, command]
    began = time.perf_counter()
    with least_room(work) as lost, (place / "log").open("wb") as log:
        done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=log)
        wall = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{command} exited with {done.returncode}:\n{(place / 'log').read_text()}")
    cpu, memory = map(float, done.stdout.split())
    size = out.stat().st_size
    subprocess.run(["chmod", "-R", "u+rwX", place], check=True)
    shutil.rmtree(place)
    return Cost(wall, cpu, memory, max(0, lost() - size) / 1e6, size / 1e6)


class least_room:  # noqa: N801 - used as a function
    """Watch a file system; call the object for the largest number of bytes used since the start."""

    def __init__(self, place: Path) -> None:
        self._place, self._stop = place, threading.Event()
        self._before = self._least = self._free()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> least_room:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def __call__(self) -> int:
        return self._before - self._least

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self._least = min(self._least, self._free())

    def _free(self) -> int:
        found = os.statvfs(self._place)
        return found.f_bfree * found.f_frsize


def compare(title: str, found: Mapping[str, Cost]) -> Iterator[Row]:
    """Compare each alternative with ours."""
    ours = found[OURS]
    for name, cost in found.items():
        aim = {PULL: "15 x", ZSTD: "8 x"}.get(name, "") if title.startswith("real") else ""
        yield Row(f"{title}: {name}", str(cost), f"{ours.wall:.1f} s", f"{cost.wall / ours.wall:.1f} x", aim)
