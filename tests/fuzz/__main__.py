"""Fuzz the parsers of outside bytes: `python -m tests.fuzz [--inputs N] [--seconds S] [--seed N] [NAME ...]`.

Prints a line for each reader when it is done: inputs, how many were accepted, seconds, and the most memory used in MB.
An input that a reader does not survive ends the run of that reader, and is printed; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.readers import READERS, prepared
from tests.fuzz.run import feed


def main() -> None:
    """Parse the arguments, and run each reader in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"readers: {', '.join(READERS)} (default: all)")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs for each reader (default: 1,000,000)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="limit for each reader (default: 3600)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random numbers (default: the time)")
    parser.add_argument("--jobs", type=int, default=1, help="readers at the same time (default: 1)")
    given = parser.parse_args()
    if unknown := set(given.names) - set(READERS):
        parser.error(f"unknown reader: {', '.join(sorted(unknown))}")
    todo = [(name, given.seed, given.inputs, given.seconds) for name in given.names or READERS]
    print(f"{'reader':24} {'inputs':>9} {'accepted':>9} {'seconds':>8} {'MB':>6}  (seed {given.seed})", flush=True)
    with multiprocessing.get_context("spawn").Pool(given.jobs, maxtasksperchild=1) as pool:
        failed = [not ok for ok in pool.imap_unordered(_run, todo)]
    sys.exit(any(failed))


def _run(task: tuple[str, int, int, float]) -> bool:
    name, seed, inputs, seconds = task
    try:
        with tempfile.TemporaryDirectory(prefix="hpcmod-fuzz-") as work, prepared(name, Path(work)) as reader:
            found = feed(reader, name=name, seed=seed, inputs=inputs, seconds=seconds)
    except AssertionError as err:
        print(f"FAILED {err}\n    {err.__cause__!r}", flush=True)
        return False
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name:24} {found.inputs:9} {found.accepted:9} {found.seconds:8.0f} {megabytes:6}", flush=True)
    return True


if __name__ == "__main__":
    main()
