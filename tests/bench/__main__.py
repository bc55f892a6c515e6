"""Run the benchmarks: `python -m tests.bench [--megabytes N] [--rounds N] [install|module|...]`."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import tempfile
from pathlib import Path

from tests.bench.measure import table
from tests.stack import find_stack, read_stack

BENCHMARKS = (*("install", "module", "runscript", "convert", "commands", "published", "catalogue", "spider"),)
ON_DEMAND = "convert"
"""An hour, and 30 GB of test images."""


def main() -> None:
    """Parse the arguments, run each benchmark in its own directory, and print its table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        choices=[*BENCHMARKS, []],
        help=f"any of {', '.join(BENCHMARKS)}; default: all but {ON_DEMAND}",
    )
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the image to install (default: 1000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison (default: 5)")
    given = parser.parse_args()
    stack = read_stack(find_stack())
    if stack is None:
        raise SystemExit(f"no test stack in {find_stack()}: run dev/stack")
    print(f"{os.cpu_count()} cores, {platform.platform()}, medians of {given.rounds} alternating rounds\n")
    for name in given.names or [name for name in BENCHMARKS if name != ON_DEMAND]:
        bench = importlib.import_module(f"tests.bench.bench_{name}")
        with tempfile.TemporaryDirectory(prefix="hpcmod-bench-", dir=stack.root) as work:
            rows = list(bench.rows(stack, Path(work), megabytes=given.megabytes, rounds=given.rounds))
        print(table(bench.TITLE, rows), flush=True)


if __name__ == "__main__":
    main()
