"""Compare measured bandwidths with references, print them, write reports, and remember them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

from hpcmod.check.bandwidth.history import MeasuredWith, read_earlier_points, remember_points
from hpcmod.cli.findings import finding_values, print_findings
from hpcmod.cli.output import print_json, print_table, print_text, tell, terminal_width
from hpcmod.cli.runs.bench_options import BenchFlags
from hpcmod.errors import HpcmodError, explain_os_error
from hpcmod.fs.tree import write_file
from hpcmod.machine import state_directory
from hpcmod.model.bandwidth.comparison import (
    BandwidthReference,
    BandwidthVerdict,
    compare_bandwidths,
    history_references,
    judge_bandwidths,
    profile_references,
)
from hpcmod.model.bandwidth.measurement import BandwidthPoint, Measurement, summarize
from hpcmod.model.bandwidth.products import ProductSpeed, judge_products
from hpcmod.model.bandwidth.sizes import format_binary_size, format_rate
from hpcmod.model.bandwidth.startup import StartTime
from hpcmod.model.finding import FAIL, UNKNOWN, Finding
from hpcmod.model.site import Site
from hpcmod.render.bandwidth_bars import render_bars
from hpcmod.render.bandwidth_chart import make_charts, render_svg
from hpcmod.resources import page_files

_WIDTH = 80  # columns of bars that do not go to a terminal
_LEFT_OUT = re.compile(r"# (\S{1,40}) (?:bytes )?left out: (.{1,300})")


@dataclass(frozen=True)
class Results:
    """What was measured, and what went wrong."""

    measured: MeasuredWith
    measurements: tuple[Measurement, ...]
    products: tuple[ProductSpeed, ...] = ()
    starts: tuple[StartTime, ...] = ()
    findings: tuple[Finding, ...] = ()


def find_left_out(output: str) -> Iterator[Finding]:
    """Yield a finding for each collective or size that our program could not measure."""
    for what, why in dict.fromkeys(_LEFT_OUT.findall(output)):
        yield Finding(UNKNOWN, "left-out", f"not measured: {why}", "", what)


def show_results(results: Results, site: Site, flags: BenchFlags) -> NoReturn:
    """Print the results with their verdicts, write the named files, and exit: with 1 if a finding is a failure."""
    history = _history_file(flags)
    points = summarize(results.measurements)
    failures: list[HpcmodError] = []  # reported after the results, which took long to measure
    references = [*profile_references(site), *_earlier_references(history, results.measured, failures)]
    tolerance = flags.tolerance / 100
    verdicts = compare_bandwidths(points, references, tolerance=tolerance)
    judged = (*judge_bandwidths(verdicts, tolerance=tolerance), *judge_products(results.products, tolerance=tolerance))
    whole = replace(results, findings=(*results.findings, *judged))
    _print(whole, verdicts, flags)
    failures += _write(whole, verdicts, flags)
    good = [one.point for one in verdicts if one.level != FAIL and one.point.wrong <= 0]
    if history and good and not failures:
        failures += _remember(history, results.measured, good, flags)
    for failure in failures:
        tell(f"{failure}")
    failed = 1 if any(one.level == FAIL for one in whole.findings) else 0
    sys.exit(failures[0].exit_code if failures else failed)


def _history_file(flags: BenchFlags) -> Path | None:
    """Return the file of earlier runs; None if there is none: logs of others are recorded only if it is named."""
    if flags.no_history or (flags.read and not flags.history):
        return None
    return flags.history or state_directory(os.environ) / "bandwidth.sqlite"


def _earlier_references(
    history: Path | None, measured: MeasuredWith, failures: list[HpcmodError]
) -> Iterator[BandwidthReference]:
    """Yield references from earlier runs; add the failure to the list if their file cannot be read."""
    try:
        yield from history_references(read_earlier_points(history, measured) if history else ())
    except HpcmodError as err:
        failures.append(err)
    except OSError as err:
        failures.append(explain_os_error(err))


def _print(results: Results, verdicts: Sequence[BandwidthVerdict], flags: BenchFlags) -> None:
    if flags.as_json:
        print_json(
            dry_run=False,
            site=results.measured.site,
            container=results.measured.module,
            method=results.measured.method,
            points=[_point_values(one) for one in verdicts],
            products=[asdict(one) for one in results.products],
            starts=[asdict(one) for one in results.starts],
            findings=finding_values(results.findings),
        )
        return
    headers = ("COLLECTIVE", "NODES", "SIZE", "TIME/US", "ALGBW", "BUSBW", "SPREAD", "VERDICT")
    print_table(headers, [_row(one) for one in verdicts])
    print_table(("RANK", "HOST", "DEVICE", "NAME", "TFLOP/S"), [_product_row(one) for one in results.products])
    starts = [_start_row(one) for one in results.starts]
    print_table(("STARTED", "NODES", "RANKS", "SECONDS", "LOWEST", "HIGHEST", "GB/S"), starts)
    width = terminal_width()
    if verdicts and (flags.plot or width):
        for line in ("", *render_bars(verdicts, width=min(width or _WIDTH, _WIDTH)), ""):
            print_text(line)
    print_findings(results.findings)


def _point_values(verdict: BandwidthVerdict) -> dict[str, Any]:
    reference = asdict(verdict.reference) if verdict.reference else None
    return {**asdict(verdict.point), "reference": reference, "level": verdict.level}


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


def _product_row(product: ProductSpeed) -> tuple[str, ...]:
    return (str(product.rank), product.host, product.device, product.name, f"{product.speed:.4g}")


def _start_row(start: StartTime) -> tuple[str, ...]:
    seconds = (f"{number:.2f}" for number in (start.seconds, start.low, start.high))
    rate = format_rate(start.rate) if start.rate else "-"
    return (start.what, str(start.nodes), str(start.ranks), *seconds, rate)


def _write(results: Results, verdicts: tuple[BandwidthVerdict, ...], flags: BenchFlags) -> Iterator[HpcmodError]:
    """Write the report and the charts to the files that the options name; yield what fails."""
    try:
        if flags.svg:
            write_file(flags.svg, render_svg(list(make_charts(verdicts))))
        if flags.html:
            write_file(flags.html, _render(results, verdicts, flags))
    except OSError as err:
        yield explain_os_error(err)


def _render(results: Results, verdicts: tuple[BandwidthVerdict, ...], flags: BenchFlags) -> str:
    from hpcmod.render.bandwidth_report import BandwidthReport, render_report  # imports jinja2, which is slow

    report = BandwidthReport(
        subject=results.measured.module or ", ".join(flags.names),
        site=results.measured.site,
        made=_now(),
        verdicts=verdicts,
        findings=results.findings,
        products=results.products,
        starts=results.starts,
    )
    return render_report(report, page_files())


def _remember(
    history: Path, measured: MeasuredWith, points: Sequence[BandwidthPoint], flags: BenchFlags
) -> Iterator[HpcmodError]:
    """Add points to the file of earlier runs; yield what fails if the user has named it, else only report it.

    Slow points are not for it: later ones that are as slow would pass.
    """
    is_own = flags.history is None
    try:
        remember_points(history, measured, points, time=_now(), private=is_own, tell=tell)
        return
    except OSError as err:
        failure = explain_os_error(err)
    except HpcmodError as err:
        failure = err
    if is_own:
        tell(f"not remembered for later runs: {failure.message}")
    else:
        yield failure


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
