"""The tables in docs/explanation/start-at-scale.md, generated from measured.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hpcmod.model.nodes.staging import LEAST_GAIN, PART, RATES, STREAM, PlaceFacts, StagingFacts, decide_staging
from tests.simulate.calibration import Measured, read_measured
from tests.simulate.model import Costs, start_seconds
from tests.simulate.scale import (
    LARGE,
    LUSTRE,
    RANKS,
    compare,
    render_table,
    scale_image,
    simulate_cases,
    simulate_point,
)
from tests.stack import CHECKOUT

PAGE = CHECKOUT / "docs" / "explanation" / "start-at-scale.md"

RULE_NODES = (2, 8, 64, 512, 4096)


def renew_page() -> None:
    """Update the tables."""
    measured = read_measured()
    PAGE.write_text(render_page(PAGE.read_text(encoding="utf-8"), measured), encoding="utf-8")


def render_page(text: str, measured: Measured) -> str:
    """Return the page with everything between `<!-- NAME -->` and `<!-- end -->` regenerated."""
    for name, content in _parts(measured):
        part = f"<!-- {name} -->\n\n{content}\n<!-- end -->"
        text, count = re.subn(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _, part=part: part, text, flags=re.DOTALL)  # type: ignore[misc]
        if count != 1:
            raise SystemExit(f"{PAGE.name} has {count} parts <!-- {name} -->")
    return text


def _parts(measured: Measured) -> Iterator[tuple[str, str]]:
    yield "measured", _describe(measured)
    yield "costs", _render_costs(measured.costs)
    yield "compare", compare(measured)
    yield (
        "scale",
        "\n".join(
            f"**{title}**, in seconds:\n\n{render_table(table)}" for title, table in simulate_cases(measured.costs)
        ),
    )
    yield "rule", render_rules(measured.costs)


def _describe(measured: Measured) -> str:
    rounds = max(len(point.wall) for point in measured.points)
    busy = ", ".join(f"{cores:.2f}" for cores in measured.background)
    others = f"other programs used {busy} cores before the rounds" if busy else "other programs ran at the same time"
    far = [abs(simulate_point(measured, point) / point.median - 1) for point in measured.points]
    near = sum(each <= 0.25 for each in far)
    return (
        f"Measured on {measured.date} in {rounds} rounds on a machine with {measured.machine.cores} cores; {others}.\n"
        f"{near} of {len(far)} simulated starts differ by at most 25 % from the median of the measured\n"
        f"ones; the largest difference is {max(far):.0%}. With 16 ranks on one of these nodes, each needs\n"
        f"{measured.crowding:.0%} more CPU time than with 4, which the model does not contain.\n"
    )


def _render_costs(costs: Costs) -> str:
    tree, alone = costs.staging["tree"], 1 + costs.waking
    rows = (
        ("a task of a step, besides the first 0.1 s or so of the scheduler", costs.task),
        ("a container", costs.container),
        ("run script and interpreter", costs.script),
        ("`import torch`", costs.imports),
        ("`import torch` next to an idle core", costs.imports * alone),
        ("fork: once per node, instead of an import per rank", costs.fork_once * alone),
        ("fork: a rank, besides its container and script", costs.fork),
        ("one per node: once per node", costs.shared_once * alone),
        ("one per node: a rank", costs.shared),
        (
            "tree: to receive and verify a copy of 1 GB, per node",
            tree.node + 1e9 * (tree.node_per_byte + tree.beside_per_byte),
        ),
    )
    lines = ["| what | CPU time |", "|---|---|", *(f"| {what} | {seconds:.2f} s |" for what, seconds in rows)]
    share = costs.start_bytes / costs.image_bytes
    read = f"a start reads {costs.start_bytes / 1e6:.0f} MB ({share:.0%})"
    return "\n".join([*lines, f"\nThe image has {costs.image_bytes / 1e6:.0f} MB, of which {read}.\n"])


def compare_rule(costs: Costs, size: float, nodes: int) -> tuple[str, float, float]:
    """Return the decision of `--stage auto` on Lustre, and the simulated seconds of that and of the fastest method.

    Uses the rates and the share of the image that the rule assumes. `copy` is not simulated; it counts as `tree`.
    """
    machine = replace(LUSTRE, read=RATES["lustre"], node_read=STREAM, link=STREAM)
    of_image = replace(scale_image(costs, size), start_bytes=PART * size)
    way = decide_staging(StagingFacts(int(size), "lustre", nodes, (PlaceFacts("ram"),))).way
    times = {name: start_seconds(way_of, nodes, RANKS, of_image, machine) for name, way_of in _SIMULATED.items()}
    return way, times["tree" if way == "copy" else way], min(times.values())


_SIMULATED = {"off": "plain", "tree": "tree"}


def render_rules(costs: Costs) -> str:
    """Return a Markdown table of `--stage auto` decisions and simulated start times."""
    lines = ["| image | nodes | `--stage auto` | simulated | fastest of off and tree |", "|---|---|---|---|---|"]
    for size in (1e9, LARGE):
        for nodes in RULE_NODES:
            way, chosen, fastest = compare_rule(costs, size, nodes)
            lines.append(f"| {size / 1e9:.0f} GB | {nodes:,} | {way} | {chosen:.1f} s | {fastest:.1f} s |")
    lines.append(f"\nThe rule stages only to save {LEAST_GAIN:.0f} s or more.")
    return "\n".join(lines) + "\n"
