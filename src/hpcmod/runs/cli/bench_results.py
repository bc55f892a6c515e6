"""Compare measured bandwidths with references, print them, and remember them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NoReturn

from hpcmod.core.cli.findings import print_findings
from hpcmod.core.cli.output import print_json, print_table, tell
from hpcmod.core.clock import now_text
from hpcmod.core.values.finding import FAIL, UNKNOWN, Finding
from hpcmod.core.values.json_form import SPLICED
from hpcmod.machine import state_directory
from hpcmod.machine.values.site import Site
from hpcmod.runs.bandwidth.history import MeasuredWith, history_file, read_earlier_points, remember_points
from hpcmod.runs.values.bandwidth.comparison import (
    BandwidthVerdict,
    compare_bandwidths,
    history_references,
    judge_bandwidths,
    profile_references,
)
from hpcmod.runs.values.bandwidth.measurement import BandwidthPoint, Measurement, summarize
from hpcmod.runs.values.bandwidth.sizes import format_binary_size, format_rate

_LEFT_OUT = re.compile(r"# (\S{1,40}) (?:bytes )?left out: (.{1,300})")


@dataclass(frozen=True)
class Results:
    """What was measured, and what went wrong."""

    measured: MeasuredWith
    measurements: tuple[Measurement, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Bandwidths:
    """Measured bandwidths, and what they were compared with."""

    measured: MeasuredWith = field(metadata=SPLICED)
    points: tuple[BandwidthVerdict, ...]
    findings: tuple[Finding, ...]


def find_left_out(output: str) -> Iterator[Finding]:
    """Yield a finding for each collective or size that our program could not measure."""
    for subject, reason in dict.fromkeys(_LEFT_OUT.findall(output)):
        yield Finding(UNKNOWN, "left-out", f"not measured: {reason}", "", subject)


def show_results(results: Results, site: Site, *, tolerance: float, as_json: bool, remember: bool) -> NoReturn:
    """Print the results with their verdicts, and exit: with 1 if a finding is a failure.

    `remember`: Whether to compare with earlier runs, and to remember this one for later runs.
    """
    history = history_file(state_directory(os.environ), results.measured.site) if remember else None
    earlier = read_earlier_points(history, results.measured, tell=tell) if history else ()
    references = [*profile_references(site), *history_references(earlier)]
    verdicts = compare_bandwidths(summarize(results.measurements), references, tolerance=tolerance)
    name = results.measured.module or "NAME"
    judged = judge_bandwidths(verdicts, tolerance=tolerance)
    findings = [*results.findings, *(replace(each, cure=each.cure.replace("NAME", name)) for each in judged)]
    if as_json:
        print_json(Bandwidths(results.measured, verdicts, tuple(findings)))
    else:
        headers = ("COLLECTIVE", "NODES", "SIZE", "TIME/US", "ALGBW", "BUSBW", "SPREAD", "VERDICT")
        print_table(headers, [_row(verdict) for verdict in verdicts])
        print_findings(findings)
    # later runs that are as slow would pass if slow points counted
    good = [verdict.point for verdict in verdicts if verdict.level != FAIL and verdict.point.wrong <= 0]
    if history and good:
        remember_points(history, results.measured, good, date=now_text(), tell=tell)
    sys.exit(1 if any(finding.level == FAIL for finding in findings) else 0)


def _row(verdict: BandwidthVerdict) -> tuple[str, ...]:
    point = verdict.point
    spread = (point.high - point.low) / 2 / point.busbw if point.runs > 1 and point.busbw else None
    return (
        point.collective or "?",
        _format_ranks(point),
        format_binary_size(point.size),
        f"{point.time:.1f}" if point.time else "?",
        format_rate(point.algbw),
        format_rate(point.busbw) if point.busbw else "?",
        "-" if spread is None else f"+-{spread:.0%}",
        f"{verdict.level} {verdict.share:.0%}" if verdict.reference else "-",
    )


def _format_ranks(point: BandwidthPoint) -> str:
    """Return nodes and ranks on each: 2x4; only the nodes if the ranks are not known or uneven."""
    if not point.nodes:
        return "?"
    each, left = divmod(point.ranks, point.nodes)
    return f"{point.nodes}x{each}" if each and not left else str(point.nodes)
