"""Render a report of measured bandwidths: one HTML file that loads nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcmod.model.bandwidth.comparison import BandwidthVerdict, describe_group
from hpcmod.model.bandwidth.products import ProductSpeed
from hpcmod.model.bandwidth.sizes import format_binary_size, format_rate
from hpcmod.model.bandwidth.startup import StartTime
from hpcmod.model.finding import Finding
from hpcmod.render.bandwidth_chart import make_charts, render_svg
from hpcmod.render.page import html_environment

TEMPLATE = "bandwidth.html.j2"
"""Name of the template among the files of pages/."""


@dataclass(frozen=True)
class BandwidthReport:
    """What a report says."""

    subject: str
    """What was measured: a module, or files."""
    site: str
    made: str
    """Date and time, for people."""
    verdicts: tuple[BandwidthVerdict, ...]
    findings: tuple[Finding, ...]
    products: tuple[ProductSpeed, ...] = ()
    starts: tuple[StartTime, ...] = ()


def render_report(report: BandwidthReport, templates: Mapping[str, str]) -> str:
    """Return the report as HTML."""
    environment = html_environment(templates)
    environment.filters["rate"] = format_rate
    charts = [(chart, render_svg([chart])) for chart in make_charts(report.verdicts)]
    return environment.get_template(TEMPLATE).render(report=report, groups=_make_groups(report.verdicts), charts=charts)


def _make_groups(verdicts: Sequence[BandwidthVerdict]) -> list[tuple[str, list[tuple[BandwidthVerdict, str]]]]:
    groups: dict[str, list[tuple[BandwidthVerdict, str]]] = {}
    for one in verdicts:
        title = describe_group(one.point.collective, one.point.nodes)
        groups.setdefault(title, []).append((one, format_binary_size(one.point.size)))
    return list(groups.items())
