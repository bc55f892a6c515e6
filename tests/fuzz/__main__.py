"""Fuzz the parsers of outside bytes: `python -m tests.fuzz [--inputs N] [--seconds S] [--seed N] [NAME ...]`.

Prints a line for each reader when it is done: inputs, how many were accepted, seconds, and the most memory used in MB.
An input that a reader does not survive ends the run of that reader, and is printed; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time

from tests.fuzz.readers import READERS
from tests.fuzz.run import report


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
        failed = [not ok for ok in pool.imap_unordered(report, todo)]
    sys.exit(any(failed))


if __name__ == "__main__":
    main()
