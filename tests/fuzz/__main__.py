"""Fuzz the parsers of external input: `python -m tests.fuzz [--inputs N] [--seconds S] [--seed N] [NAME ...]`.

Prints a line for each reader when it is done: inputs, accepted inputs, seconds, and peak memory in MB. An input that
makes a reader fail is printed and ends the run of that reader; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from importlib import import_module

from tests.fuzz.readers import READERS
from tests.fuzz.run import report


def main() -> None:
    """Parse the arguments, and run each reader in its own process."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"readers: {', '.join(READERS)} (default: all)")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs for each reader (default: 1,000,000)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="time limit for each reader (default: 3600)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of random numbers (default: the time)")
    parser.add_argument("--jobs", type=int, default=1, help="number of readers to run in parallel (default: 1)")
    given = parser.parse_args()
    if unknown := set(given.names) - set(READERS):
        parser.error(f"unknown reader: {', '.join(sorted(unknown))}")
    todo = [(name, given.seed, given.inputs, given.seconds) for name in given.names or READERS]
    print(f"{'reader':24} {'inputs':>9} {'accepted':>9} {'seconds':>8} {'MB':>6}  (seed {given.seed})", flush=True)
    spawn = multiprocessing.get_context("spawn")
    readers = ("tests.fuzz.readers",)
    with spawn.Pool(given.jobs, initializer=import_module, initargs=readers, maxtasksperchild=1) as pool:
        failed = [not ok for ok in pool.imap_unordered(report, todo)]
    sys.exit(any(failed))


if __name__ == "__main__":
    main()
