"""Run the scripts in tests/lumi/scripts with LUMI's kind of module and with ours: python -m tests.lumi [NAME...].

Prints a line for each script, and both results if they differ. Exits with 1 if any differ. Needs the test stack.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.lumi.machine import SCRIPTS, make_sides, run_scripts
from tests.stack import find_stack, read_stack, start_cluster, stop_cluster


def main(names: list[str]) -> int:
    """Run the named scripts, or all."""
    stack = read_stack(find_stack())
    if stack is None:
        print("the test stack is missing: run ./dev/stack first", file=sys.stderr)
        return 7
    scripts = [path for path in sorted(SCRIPTS.glob("*.sh")) if not names or path.stem in names]
    unknown = set(names) - {path.stem for path in scripts}
    if unknown:
        print(f"no such script: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    cluster = start_cluster(stack, f"lumi-{os.getpid()}", "-n", "4", "-c", "288", "-s", "4", "-g", "8")
    try:
        with tempfile.TemporaryDirectory(prefix="hpcmod-lumi-") as top:
            results = run_scripts(make_sides(cluster, Path(top)), scripts)
    finally:
        stop_cluster(cluster)
    differ = 0
    for name, (lumi, ours) in sorted(results.items()):
        same = lumi.compared == ours.compared
        differ += not same
        print(f"{'same' if same else 'DIFFERENT'}  {lumi.status}  {name}")
        if not same or os.environ.get("HPCMOD_LUMI_SHOW"):
            for side, result in (("LUMI", lumi), ("ours", ours)):
                print(f"--- {side}: exit {result.status}\n{result.output}\n{result.errors}")
    print(f"{len(results) - differ} of {len(results)} scripts behave the same")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
