"""Run commands with injected faults: `python -m tests.faults [--most N] [VERB ...]`.

Every command that changes something runs once without a fault; then repeatedly from the same state, each time with one
writing system call that kills it or fails with EIO, ENOSPC, EDQUOT or ESTALE; then once more without a fault. A trial
is bad if it shows a traceback, exits with an undocumented code, does not end, or finally differs from the run without a
fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.faults.kinds import ERRORS, KILL
from tests.faults.scenes import SCENES
from tests.faults.trials import HEAD, Choice, Done, try_verbs
from tests.stack import find_stack, read_stack


def main() -> None:
    """Parse the arguments, try each command, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("verbs", nargs="*", metavar="VERB", help=f"one of {', '.join(SCENES)} (default: all)")
    parser.add_argument("--most", type=int, default=200, help="maximum number of trials for each verb (default: 200)")
    faults = (KILL, *ERRORS)
    parser.add_argument("--fault", action="append", choices=faults, help="only this fault; may be repeated")
    by = "try each system call; both: EIO, EDQUOT and ESTALE at each place, KILL and ENOSPC at each call"
    parser.add_argument("--by", choices=("point", "both"), default="point", help=by)
    parser.add_argument("--done", type=Path, metavar="FILE", help="record trials in FILE, and skip those already in it")
    given = parser.parse_args()
    if unknown := set(given.verbs) - set(SCENES):
        parser.error(f"unknown verb: {', '.join(sorted(unknown))}")
    stack = read_stack(find_stack())
    if stack is None:
        raise SystemExit(f"no test stack in {find_stack()}: run dev/stack")
    print(HEAD, flush=True)
    bad, done = 0, Done(given.done)
    choice = Choice(given.most, tuple(given.fault or ()), both=given.by == "both")
    with tempfile.TemporaryDirectory(prefix="hpcmod-faults-") as work:
        for report in try_verbs(given.verbs or SCENES, stack, Path(work), choice, done):
            print(report.row(), flush=True)
            bad += len(report.bad)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
