"""Charts in SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from hpcmod.model.bandwidth.comparison import BandwidthVerdict
from hpcmod.render.bandwidth_chart import Chart, Line, make_charts, render_svg
from tests.unit.render.test_bandwidth_bars import verdict

SVG = "{http://www.w3.org/2000/svg}"
VERDICTS = [verdict(size << 20, size * 10.0, nodes=nodes) for nodes in (1, 2) for size in (1, 2, 4)]
VERDICTS[-1] = verdict(4 << 20, 40.0, nodes=2, reference=44.0)


def drawn(verdicts: list[BandwidthVerdict]) -> ET.Element:
    return ET.fromstring(render_svg(list(make_charts(verdicts))))  # noqa: S314 - our own


def test_there_is_a_chart_over_sizes_and_one_over_nodes() -> None:
    over_sizes, over_nodes = make_charts(VERDICTS)
    assert [line.name for line in over_sizes.lines] == ["1 node", "2 nodes"]
    assert over_sizes.lines[0].points == ((1 << 20, 10.0), (2 << 20, 20.0), (4 << 20, 40.0))
    assert over_nodes.lines[0].points == ((1, 40.0), (2, 40.0))
    assert over_sizes.references == ((4 << 20, 44.0, "x"),)
    assert over_nodes.references == ((2, 44.0, "x"),)


def test_no_chart_for_one_size_on_one_node() -> None:
    assert list(make_charts([verdict(8, 1.0)])) == []
    assert "no data" in render_svg([])


def test_a_line_goes_to_the_right_and_up_with_its_values_inside_the_picture() -> None:
    root = drawn(VERDICTS)
    lines = [line.get("points", "") for line in root.iter(f"{SVG}polyline")]
    assert len(lines) == 3
    points = [tuple(map(float, pair.split(","))) for pair in lines[0].split()]
    steps = [after[0] - before[0] for before, after in zip(points, points[1:])]
    assert steps == pytest.approx([steps[0]] * 2, abs=0.2)  # each size doubles the previous one
    assert all(after[1] < before[1] for before, after in zip(points, points[1:]))
    numbers = [
        float(value) for value in re.findall(r' c?[xy][12]?="([-\d.]+)"', render_svg(list(make_charts(VERDICTS))))
    ]
    assert min(numbers) >= 0 and max(numbers) <= 760


def test_a_picture_has_a_description() -> None:
    root = drawn(VERDICTS)
    assert root.get("role") == "img"
    assert (root.findtext(f"{SVG}title") or "").startswith("all_reduce: bus bandwidth over size")
    assert "1 node: up to 40 GB/s; 2 nodes: up to 40 GB/s" in (root.findtext(f"{SVG}desc") or "")


def test_texts_of_others_stay_texts() -> None:
    hostile = "</title><script>alert(1)</script>&\"'"
    lines = (Line(hostile, ((1, 1.0), (2, 2.0))),)
    chart = Chart(hostile, hostile, hostile, ((1, hostile), (2, "2")), lines, ((1, 1.0, hostile),))
    svg = render_svg([chart])
    assert "<script" not in svg
    assert ET.fromstring(svg).findtext(f"{SVG}title") == hostile  # noqa: S314


@pytest.mark.parametrize("most", [0.0, 1e-5, 0.3, 7.0, 158.65, 4096.0])
def test_grid_lines_are_few_for_any_values(most: float) -> None:
    chart = Chart("t", "d", "x", ((1, "1"), (2, "2")), (Line("l", ((1, most / 2), (2, most))),))
    labels = re.findall(r'text-anchor="end"[^>]*>([^<]+)<', render_svg([chart]))
    assert 2 <= len(labels) <= 11 and float(labels[-1]) >= most


def test_runs_show_their_spread() -> None:
    line = Line("l", ((1, 5.0), (2, 6.0)), ((1, 4.0, 6.0),))
    chart = Chart("t", "d", "x", ((1, "1"), (2, "2")), (line,))
    plain = Chart("t", "d", "x", ((1, "1"), (2, "2")), (Line("l", line.points),))
    assert render_svg([chart]).count("<line") == render_svg([plain]).count("<line") + 1


def test_a_logarithmic_axis_has_the_same_distance_for_the_same_ratio() -> None:
    points = ((1.0, 3.0), (2.0, 30.0), (4.0, 300.0))
    svg = render_svg([Chart("t", "d", "nodes", ((1, "1"),), (Line("a", points),), y_label="s", y_is_logarithmic=True)])
    places = [float(pair.split(",")[1]) for pair in re.findall(r'<polyline points="([^"]+)"', svg)[0].split()]
    assert places[0] - places[1] == pytest.approx(places[1] - places[2], abs=0.2) and places[0] > places[2]
    assert [label for label in ("2", "5", "10", "500") if f'text-anchor="end" fill="#333333">{label}<' not in svg] == []
