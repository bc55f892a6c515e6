"""Simulate how long ranks take to start on up to 10,000 nodes: `python -m tests.simulate [compare|scale|measure]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.simulate.calibration import read_measured
from tests.simulate.measure import WAYS, measure
from tests.simulate.scale import LARGE, LUSTRE, NFS, STRIPED, compare, render_chart, render_table, scale_image, simulate


def main() -> None:
    """Parse the arguments, and print tables or measurements."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description=__doc__)
    parser.add_argument("what", choices=("compare", "scale", "measure"), help="measure: prints a new measured.toml")
    parser.add_argument("--svg", type=Path, help="file for the chart of `scale`")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement (default: 3)")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"ways to measure (default: {','.join(WAYS)})")
    given = parser.parse_args()
    if given.what == "measure":
        for line in measure(given.rounds, given.ways.split(",")):
            print(line, flush=True)
    elif given.what == "compare":
        print(compare(read_measured()))
    else:
        _scale(given.svg)


def _scale(svg: Path | None) -> None:
    costs = read_measured().costs
    small, large = f"an image of {costs.image_bytes / 1e6:.0f} MB", f"an image of {LARGE / 1e9:.0f} GB"
    cases = (
        (f"Start time, {small} on one Lustre target", costs, LUSTRE),
        (f"Start time, {large} on one Lustre target", scale_image(costs, LARGE), LUSTRE),
        (f"Start time, {large} on eight Lustre targets", scale_image(costs, LARGE), STRIPED),
        (f"Start time, {large} on NFS", scale_image(costs, LARGE), NFS),
    )
    tables = [(title, simulate(of_image, machine)) for title, of_image, machine in cases]
    for title, table in tables:
        print(f"{title}\n\n{render_table(table)}", flush=True)
    if svg:
        svg.write_text(render_chart(tables))


if __name__ == "__main__":
    main()
