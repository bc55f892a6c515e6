"""Start times on machines that we do not have, from given rates and costs measured on one node: a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.simulate.calibration import Measured, Point
from tests.simulate.model import WAYS, Costs, Machine, start_seconds

RANKS = 8
NODES = (1, 4, 16, 64, 256, 1024, 4096, 10000)

NAMES = {
    "plain": "plain",
    "sbcast": "sbcast",
    "tree": "tree",
    "fork": "fork",
    "one-per-node": "one per node",
}

LUSTRE = Machine(cores=RANKS, metadata=50e3, delay=0.5e-3, read=240e9 / 32, node_read=2e9, link=25e9, hop=0.1)
"""A file on one of 32 targets that together read 240 GB/s (LUMI-P), and links of 200 Gbit/s; the rest is assumed."""
STRIPED = replace(LUSTRE, read=240e9 / 4)
"""The same with a file on 8 targets."""
NFS = replace(LUSTRE, metadata=10e3, read=2e9)

LARGE = 10e9
"""Bytes of an image of PyTorch for GPUs."""

Table = Mapping[str, Mapping[int, float]]


def scale_image(costs: Costs, size: float) -> Costs:
    """Return the costs for an image of another size; starts read the same share of it."""
    return replace(costs, image_bytes=size, start_bytes=costs.start_bytes * size / costs.image_bytes)


def simulate(costs: Costs, machine: Machine, nodes: Sequence[int] = NODES) -> Table:
    """Return start times in seconds, by method and number of nodes."""
    ways = [way for way in WAYS if way not in ("sbcast", "tree") or way in costs.staging]
    return {way: {count: start_seconds(way, count, RANKS, costs, machine) for count in nodes} for way in ways}


def simulate_cases(costs: Costs) -> list[tuple[str, Table]]:
    """Return start times for images of two sizes on several file systems, each with a title."""
    small, large = f"image of {costs.image_bytes / 1e6:.0f} MB", f"image of {LARGE / 1e9:.0f} GB"
    cases = (
        (f"Start time, {small} on one Lustre target", costs, LUSTRE),
        (f"Start time, {large} on one Lustre target", scale_image(costs, LARGE), LUSTRE),
        (f"Start time, {large} on eight Lustre targets", scale_image(costs, LARGE), STRIPED),
        (f"Start time, {large} on NFS", scale_image(costs, LARGE), NFS),
    )
    return [(title, simulate(of_image, machine)) for title, of_image, machine in cases]


def render_table(table: Table) -> str:
    """Return start times as a Markdown table."""
    nodes = list(next(iter(table.values())))
    lines = ["| nodes | " + " | ".join(NAMES[way] for way in table) + " |", "|---" * (len(table) + 1) + "|"]
    lines += [f"| {count:,} | " + " | ".join(f"{table[way][count]:.1f}" for way in table) + " |" for count in nodes]
    return "\n".join(lines) + "\n"


def simulate_point(measured: Measured, point: Point) -> float:
    """Return the simulated seconds of a measured start."""
    return start_seconds(point.way, point.nodes, point.ranks, measured.costs, measured.machine)


def compare(measured: Measured) -> str:
    """Return a Markdown table of measured and simulated starts."""
    lines = ["| way | virtual nodes | measured | median | simulated | difference |", "|---|---|---|---|---|---|"]
    for point in measured.points:
        simulated = simulate_point(measured, point)
        rounds = ", ".join(f"{wall:.1f}" for wall in point.wall)
        difference = f"{100 * (simulated / point.median - 1):+.0f} %"
        seconds = f"{rounds} s | {point.median:.1f} s | {simulated:.1f} s"
        lines.append(f"| {NAMES[point.way]} | {point.nodes} | {seconds} | {difference} |")
    return "\n".join(lines) + "\n"
