"""Plant faults on virtual Slurm nodes: `python -m tests.planted [--done FILE] [NAME ...]`.

Runs on four nodes as an ordinary user, with real PyTorch over gloo. There are ten faults of each kind, and healthy runs
of each command. `hpcmod check`, `verify-net`, `bench` or `why` must find and name each fault. A full run takes about an
hour on two idle cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.planted.judge import MISSED, Verdict, judge
from tests.planted.machine import Planted, start_machine
from tests.planted.plants import Plant, all_plants
from tests.planted.results import add_result, make_table, read_results
from tests.stack import find_stack, read_stack

TOGETHER = 5
"""Maximum number of plants that share a job."""


def run_all(machine: Planted, plants: list[Plant]) -> Iterator[tuple[Plant, dict[str, Any]]]:
    """Yield each plant with the command's report about it."""
    for plant in (plant for plant in plants if plant.alone):
        try:
            yield plant, machine.run(plant)
        except Exception:
            yield plant, {"stderr": traceback.format_exc()}
    shared = sorted((plant for plant in plants if not plant.alone), key=lambda one: (one.nodes, one.each))
    for _, same in groupby(shared, key=lambda one: (one.nodes, one.each)):
        listed = list(same)
        for start in range(0, len(listed), TOGETHER):
            yield from machine.run_together(listed[start : start + TOGETHER])


def show(plant: Plant, verdict: Verdict) -> str:
    """Return a line that describes a result."""
    alarms = f"; false alarms: {', '.join(verdict.alarms)}" if verdict.alarms else ""
    return f"{verdict.outcome:7} {plant.name}: {' '.join(verdict.named.split())}{alarms}"


def select(names: Iterable[str]) -> list[Plant]:
    """Return the plants whose names begin with one of the words; all of them without words."""
    words = tuple(names)
    return [plant for plant in all_plants() if not words or plant.name.startswith(words)]


def main() -> None:
    """Parse the arguments, run the plants that have no result yet, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="prefixes of names, e.g. bind-check (default: all)")
    parser.add_argument("--done", type=Path, metavar="FILE", help="record results in FILE, and skip those in it")
    parser.add_argument("--list", action="store_true", help="print the names, and run nothing")
    parser.add_argument("--verbose", action="store_true", help="also print the full reports")
    given = parser.parse_args()
    chosen = select(given.names)
    if given.list:
        print("\n".join(plant.name for plant in chosen))
        return
    stack = read_stack(find_stack())
    if stack is None:
        raise SystemExit(f"no test stack in {find_stack()}: run dev/stack")
    top = Path(tempfile.mkdtemp(prefix="hpcmod-planted-", dir="/var/tmp"))  # because some faults fill /tmp
    done = given.done or top / "results.jsonl"
    try:
        open_ones = [plant for plant in chosen if plant.name not in read_results(done)]
        if open_ones:
            with start_machine(stack, top) as machine:
                for plant, said in run_all(machine, open_ones):
                    verdict = judge(plant, said)
                    add_result(done, plant, verdict)
                    print(show(plant, verdict), flush=True)
                    if given.verbose:
                        print(json.dumps(said, indent=1))
        results = read_results(done)
        print(make_table(chosen, results))
        bad = [plant for plant in chosen if results[plant.name]["outcome"] == MISSED or results[plant.name]["alarms"]]
        sys.exit(bool(bad))
    finally:
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
