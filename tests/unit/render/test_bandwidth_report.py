"""The report: a single file that loads nothing and contains every figure."""

from __future__ import annotations

from hpcmod.model.bandwidth.products import ProductSpeed
from hpcmod.model.bandwidth.startup import StartTime
from hpcmod.model.finding import Finding
from hpcmod.render.bandwidth_report import BandwidthReport, render_report
from hpcmod.resources import page_files
from tests.unit.render.test_bandwidth_chart import VERDICTS

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x07"


def rendered(subject: str = "PyTorch/2.7.1") -> str:
    findings = (Finding("fail", "bandwidth", f"slow {HOSTILE}", "Repeat.", "all_reduce"),)
    return render_report(BandwidthReport(subject, "lumi", "2026-11-23", tuple(VERDICTS), findings), page_files())


def test_the_report_has_charts_tables_and_findings() -> None:
    html = rendered()
    assert html.count("<svg") == 2 and html.count("<caption>") == 2
    assert "<title>Bandwidth of PyTorch/2.7.1</title>" in html
    assert "<td>44.00</td>" in html and '<span class="ok">ok</span>' in html
    assert '<span class="fail">fail</span> all_reduce: slow' in html


def test_products_and_starts_have_tables_of_their_own() -> None:
    products = (ProductSpeed(3, HOSTILE, "1", "GPU", 12.5, 2),)
    starts = (StartTime("import", 2, 16, 3, 4.25, 4.0, 5.0, 0.0),)
    html = render_report(BandwidthReport("x", "lumi", "2026", (), (), products, starts), page_files())
    assert "<td>12.50</td>" in html and "<td>4.25</td>" in html and "<svg" not in html and "Tables" not in html
    assert "<img" not in html


def test_the_report_loads_nothing_and_runs_nothing() -> None:
    html = rendered(HOSTILE)
    assert "<img" not in html and "<script" not in html and "\u202e" not in html and "\x07" not in html
    assert "default-src 'none'" in html
    assert "href=" not in html and "src=" not in html.replace("src=x", "").replace("default-src", "")
