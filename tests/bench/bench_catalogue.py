"""The commands that search 1,000 records, compared with starting Python; and reading a large image."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hpcmod.catalogue.records.index import INDEX, write_index
from hpcmod.catalogue.records.index import PACKAGES as PACKAGES_FILE
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.core.values.facts import Package
from tests.bench.bench_install import make_big_image
from tests.bench.measure import Row, alternate, must
from tests.catalogues import make_catalogue, make_record, put
from tests.stack import Stack

TITLE = "Finding containers among 1,000"

RECORDS, NAMES, PACKAGES = 1000, 200, 200
LINES = ("--help", "ls", "ls --json", "search torchvision", "search flash-attention", "info Name7/1.0", "info Name7")


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure whole processes; `megabytes` is the approximate size of the image."""
    catalogue = make_many(work / "catalogue")
    env = {**stack.environment(work), "HPCMOD_CATALOGUE": str(catalogue.directory)}
    hpcmod = stack.python.parent / "hpcmod"
    took = alternate(4 * rounds, {
        "python": partial(must, [sys.executable, "-c", "pass"], env=env),
        **{line: partial(must, [hpcmod, *line.split()], env=env) for line in LINES},
    })  # fmt: skip
    bare = took.pop("python")
    for line, seconds in took.items():
        memory = f"{measure_memory([str(hpcmod), *line.split()], env) / 1e6:.0f} MB"
        yield Row(f"hpcmod {line}", f"{1000 * seconds:.0f} ms, {memory}", f"python -c pass {1000 * bare:.0f} ms",
                  f"{seconds / bare:.1f}", "< 100 ms" if line == "--help" else "<= 150 ms, < 60 MB")  # fmt: skip
    yield from _image(stack, work, hpcmod, megabytes, rounds)
    yield _index(catalogue, rounds)


def _index(catalogue: Catalogue, rounds: int) -> Row:
    """Measure updating the index after one change, as publishing does, compared with indexing all records."""
    record = catalogue.read("Name7", "1.0")

    def change() -> None:
        put(catalogue, record)
        write_index(catalogue)

    took = alternate(rounds, {"change": change, "anew": partial(write_index, catalogue, anew=True)})
    size = sum((catalogue.directory / name).stat().st_size for name in (INDEX, PACKAGES_FILE)) / 1e6
    return Row(f"index, {size:.1f} MB, after a change", f"{1000 * took['change']:.0f} ms",
               f"of all records {took['anew']:.1f} s", f"{took['change'] / took['anew']:.2f}", "<= 500 ms")  # fmt: skip


def make_many(directory: Path) -> Catalogue:
    """Make a catalogue with an index, in which every container has 200 of 3,000 packages."""
    choose = random.Random(1)  # noqa: S311 - data for a benchmark
    known = ["torch", "torchvision", "numpy", "flash_attn", *(f"package-{number}" for number in range(2996))]
    catalogue = make_catalogue(directory)
    for number in range(RECORDS):
        names = sorted(choose.sample(known, PACKAGES))
        packages = tuple(Package(name, f"{choose.randrange(9)}.{choose.randrange(9)}") for name in names)
        module = f"Name{number % NAMES}/{1 + number // NAMES}.0"
        put(catalogue, make_record(module, packages=packages, architecture="amd64"))
    write_index(catalogue)
    return catalogue


MEMORY = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Runs in a small process, because a child starts with the memory of its parent."""


def measure_memory(argv: list[str], env: dict[str, str]) -> int:
    """Run a program and return its peak resident memory, in bytes."""
    return int(must([sys.executable, "-S", "-c", MEMORY, *argv], env=env).stdout) * 1024


def _image(stack: Stack, work: Path, hpcmod: Path, megabytes: int, rounds: int) -> Iterator[Row]:
    image = make_big_image(stack, work, megabytes)
    env = stack.environment(work)
    inside = [stack.apptainer, "-s", "exec", image, "bash", "-c", "eval $WITH_CONDA; python -m pip list"]
    took = alternate(rounds, {
        "info": partial(must, [hpcmod, "info", image], env=env),
        "pip": partial(must, inside, env=env),
    })  # fmt: skip
    yield Row(f"hpcmod info SIF of {image.stat().st_size >> 20} MiB", f"{1000 * took['info']:.0f} ms",
              f"pip list inside {1000 * took['pip']:.0f} ms", f"{took['info'] / took['pip']:.2f}", "< 2 s")  # fmt: skip
