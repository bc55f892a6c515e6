"""Simulate how long ranks take to start on up to 10,000 nodes: `python -m tests.simulate compare|scale|page|renew`."""

from __future__ import annotations

import argparse
import math

from tests.simulate.calibration import MEASURED, read_measured
from tests.simulate.measure import MOST_BUSY, WAYS, measure
from tests.simulate.page import PAGE, renew_page
from tests.simulate.scale import compare, render_table, simulate_cases

WHAT = """compare: measured and simulated starts; scale: simulated start times; measure: print a new measured.toml;
page: update the tables and the chart of docs/explanation/start-at-scale.md; renew: measure, and update everything"""


def main() -> None:
    """Parse the arguments, and print tables or update files."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description=__doc__)
    parser.add_argument("what", choices=("compare", "scale", "page", "measure", "renew"), help=WHAT)
    parser.add_argument("--minutes", type=float, default=10, help="approximate minutes to measure (default: 10)")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"ways to measure (default: {','.join(WAYS)})")
    parser.add_argument("--busy", action="store_true", help="measure although other programs run: not for figures")
    given = parser.parse_args()
    if given.what in ("measure", "renew"):
        text = measure(given.minutes, given.ways.split(","), most_busy=math.inf if given.busy else MOST_BUSY)
        print(text)
        if given.what == "renew":
            MEASURED.write_text(text)
    if given.what in ("page", "renew"):
        renew_page()
        print(f"renewed: {MEASURED}, {PAGE}" if given.what == "renew" else f"renewed: {PAGE}")
    measured = read_measured()
    if given.what in ("compare", "renew"):
        print(compare(measured))
    if given.what == "scale":
        for title, table in simulate_cases(measured.costs):
            print(f"{title}\n\n{render_table(table)}", flush=True)


if __name__ == "__main__":
    main()
