"""Render line charts as SVG: bandwidth over size, one line for each number of nodes, and over nodes.

Other lines over a logarithmic axis are drawn, too: tests/simulate uses it for start times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcmod.model.bandwidth.comparison import BandwidthVerdict
from hpcmod.model.bandwidth.measurement import BandwidthPoint
from hpcmod.model.bandwidth.sizes import format_binary_size
from hpcmod.render.quote import html as markup

_WIDTH, _HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 150, 48, 56
"""Margins of a chart: the legend is on the right."""

_LOOKS = (
    ("#0063a6", "none", "circle"),
    ("#b34700", "7 4", "square"),
    ("#00705a", "2 3", "diamond"),
    ("#8a3d82", "9 3 2 3", "circle"),
    ("#5a4a00", "4 2", "square"),
    ("#333333", "1 2", "diamond"),
)
"""Colour, dashes and marker of each line: also told apart without colours. All have a contrast of 5:1 on white."""

_NEXT = "\n"

_REFERENCE = "#6b6b6b"


@dataclass(frozen=True)
class Line:
    """One line of a chart."""

    name: str
    points: tuple[tuple[float, float], ...]
    """x and y."""
    spread: tuple[tuple[float, float, float], ...] = ()
    """x, lowest and highest y."""


@dataclass(frozen=True)
class Chart:
    """Lines over a logarithmic x axis, with the y axis from 0 unless it is logarithmic, too."""

    title: str
    description: str
    """What it shows, in words: for readers who cannot see it."""
    x_label: str
    ticks: tuple[tuple[float, str], ...]
    lines: tuple[Line, ...]
    references: tuple[tuple[float, float, str], ...] = ()
    """x, y and name of single points to compare with."""
    y_label: str = "bus bandwidth in GB/s"
    y_unit: str = "GB/s"
    y_is_logarithmic: bool = False


def make_charts(verdicts: Sequence[BandwidthVerdict]) -> Iterator[Chart]:
    """Yield for each collective a chart over sizes, and one over nodes where several were measured."""
    for collective in dict.fromkeys(one.point.collective for one in verdicts):
        found = [one for one in verdicts if one.point.collective == collective]
        sized = [one for one in found if one.point.size]
        if len({one.point.size for one in sized}) > 1:
            yield _over_sizes(collective, sized)
        if len({one.point.nodes for one in found}) > 1:
            yield _over_nodes(collective, found)


def _over_sizes(collective: str, verdicts: Sequence[BandwidthVerdict]) -> Chart:
    points = [one.point for one in verdicts]
    sizes = sorted({point.size for point in points})
    step = -(-len(sizes) // 8)
    by_nodes = {nodes: [point for point in points if point.nodes == nodes] for nodes in _nodes_of(points)}
    fastest = "; ".join(
        f"{_count(nodes)}: up to {max(point.busbw for point in group):.4g} GB/s" for nodes, group in by_nodes.items()
    )
    return Chart(
        title=f"{collective or 'unknown collective'}: bus bandwidth over size",
        description=f"Bus bandwidth from {format_binary_size(sizes[0])} to {format_binary_size(sizes[-1])}. {fastest}.",
        x_label="size of the data",
        ticks=tuple((size, format_binary_size(size)) for size in sizes[::step]),
        lines=tuple(_line_over_sizes(nodes, group) for nodes, group in by_nodes.items()),
        references=tuple(
            (one.point.size, one.reference.busbw, one.reference.source) for one in verdicts if one.reference
        ),
    )


def _line_over_sizes(nodes: int, group: Sequence[BandwidthPoint]) -> Line:
    return Line(
        _count(nodes),
        tuple((point.size, point.busbw) for point in group),
        tuple((point.size, point.low, point.high) for point in group if point.runs > 1),
    )


def _over_nodes(collective: str, verdicts: Sequence[BandwidthVerdict]) -> Chart:
    best = {one.point.nodes: one for one in sorted(verdicts, key=lambda one: one.point.busbw)}
    ordered = [best[nodes] for nodes in sorted(best)]
    values = ", ".join(f"{one.point.busbw:.4g} GB/s on {_count(one.point.nodes)}" for one in ordered)
    return Chart(
        title=f"{collective or 'unknown collective'}: best bus bandwidth over nodes",
        description=f"Best bus bandwidth of all sizes: {values}.",
        x_label="nodes",
        ticks=tuple((max(one.point.nodes, 1), str(one.point.nodes or "?")) for one in ordered),
        lines=(Line("best of all sizes", tuple((max(one.point.nodes, 1), one.point.busbw) for one in ordered)),),
        references=tuple(
            (max(one.point.nodes, 1), one.reference.busbw, one.reference.source) for one in ordered if one.reference
        ),
    )


def _nodes_of(points: Sequence[BandwidthPoint]) -> list[int]:
    return sorted({point.nodes for point in points})


def _count(nodes: int) -> str:
    return f"{nodes or '?'} node{'s' * (nodes != 1)}"


def render_svg(charts: Sequence[Chart]) -> str:
    """Return one SVG file with the charts below each other."""
    height = _HEIGHT * max(len(charts), 1)
    drawn = "".join(
        f'<g transform="translate(0 {_HEIGHT * number})">\n{_NEXT.join(_draw(chart))}\n</g>\n'
        for number, chart in enumerate(charts)
    )
    title = markup("; ".join(chart.title for chart in charts) or "no data")
    text = markup(" ".join(chart.description for chart in charts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="13">\n<title>{title}</title>\n<desc>{text}</desc>\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n{drawn}</svg>\n'
    )


class _Scale:
    """Where the values of a chart are on the page."""

    def __init__(self, chart: Chart) -> None:
        xs = [x for line in chart.lines for x, _ in line.points] + [x for x, _ in chart.ticks]
        highest = [high for line in chart.lines for _, _, high in line.spread]
        ys = [y for line in chart.lines for _, y in line.points] + [y for _, y, _ in chart.references] + highest
        self.first, last = math.log2(min(xs)), math.log2(max(xs))
        self.span = last - self.first or 1.0
        self.grid = _powers(min(ys), max(ys)) if chart.y_is_logarithmic else _multiples(max(ys, default=0.0))
        self._place = math.log10 if chart.y_is_logarithmic else float

    def x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (math.log2(value) - self.first) / self.span

    def y(self, value: float) -> float:
        bottom, top = self._place(self.grid[0]), self._place(self.grid[-1])
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (self._place(value) - bottom) / (top - bottom)


def _multiples(most: float) -> list[float]:
    """Return the places of grid lines from 0 to the largest value or beyond."""
    step = _nice_step(most)
    return [number * step for number in range(max(math.ceil(most / step), 1) + 1)]


def _powers(least: float, most: float) -> list[float]:
    """Return the places of grid lines around all values: 1, 2 and 5 times powers of ten."""
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    lines = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
    below = max(number for number, line in enumerate(lines) if line <= least)
    above = min(number for number, line in enumerate(lines) if line >= most)
    return lines[below : max(above, below + 1) + 1]


def _nice_step(most: float) -> float:
    """Return a distance of grid lines, of which four to eight fit below the largest value."""
    if most <= 0:
        return 1.0
    power = 10 ** math.floor(math.log10(most / 4))
    return float(next(factor * power for factor in (10, 5, 2, 1) if factor * power <= most / 4 * 1.0001))


def _draw(chart: Chart) -> Iterator[str]:
    scale = _Scale(chart)
    yield f'<text x="{_LEFT}" y="24" font-size="16" font-weight="bold" fill="#1a1a1a">{markup(chart.title)}</text>'
    yield from _draw_axes(chart, scale)
    for number, line in enumerate(chart.lines):
        yield from _draw_line(line, scale, _LOOKS[number % len(_LOOKS)])
    for x, y, name in chart.references:
        place = scale.x(x)
        drawn = _rule(place - 9, place + 9, scale.y(y), scale.y(y), _REFERENCE, ' stroke-width="2"')
        yield f"<g><title>{markup(name)}: {y:.4g} {markup(chart.y_unit)}</title>{drawn}</g>"
    yield from _draw_legend(chart)


def _draw_axes(chart: Chart, scale: _Scale) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for value in scale.grid:
        y = scale.y(value)
        yield _rule(_LEFT, right, y, y, "#dddddd")
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#333333">{_number(value)}</text>'
    for place, label in chart.ticks:
        x = scale.x(place)
        yield _rule(x, x, bottom, bottom + 5, "#333333")
        yield f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle" fill="#333333">{markup(label)}</text>'
    x_label = f'x="{(_LEFT + right) / 2:.0f}" y="{_HEIGHT - 12}"'
    yield f'<text {x_label} text-anchor="middle" fill="#333333">{markup(chart.x_label)}</text>'
    y_label = (_TOP + bottom) / 2
    yield (
        f'<text transform="translate(18 {y_label:.0f}) rotate(-90)" text-anchor="middle" fill="#333333">'
        f"{markup(chart.y_label)}</text>"
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1e4 else f"{value:.4g}"


def _draw_line(line: Line, scale: _Scale, look: tuple[str, str, str]) -> Iterator[str]:
    colour, dashes, marker = look
    for x, low, high in line.spread:
        place = scale.x(x)
        yield _rule(place, place, scale.y(low), scale.y(high), colour)
    path = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in line.points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
    for x, y in line.points:
        yield _draw_marker(marker, colour, scale.x(x), scale.y(y))


def _rule(x1: float, x2: float, y1: float, y2: float, colour: str, more: str = "") -> str:
    """Return a straight line; `more` are further attributes."""
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" stroke="{colour}"{more}/>'


def _draw_marker(marker: str, colour: str, x: float, y: float) -> str:
    if marker == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
    turned = f' transform="rotate(45 {x:.1f} {y:.1f})"' if marker == "diamond" else ""
    return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{colour}"{turned}/>'


def _draw_legend(chart: Chart) -> Iterator[str]:
    x = _WIDTH - _RIGHT + 16
    for number, line in enumerate(chart.lines):
        colour, dashes, marker = _LOOKS[number % len(_LOOKS)]
        y = _TOP + 12 + 20 * number
        yield _rule(x, x + 26, y, y, colour, f' stroke-width="2" stroke-dasharray="{dashes}"')
        yield _draw_marker(marker, colour, x + 13, y)
        yield f'<text x="{x + 32}" y="{y + 4}" fill="#1a1a1a">{markup(line.name)}</text>'
    if chart.references:
        y = _TOP + 12 + 20 * len(chart.lines)
        yield _rule(x + 4, x + 22, y, y, _REFERENCE, ' stroke-width="2"')
        yield f'<text x="{x + 32}" y="{y + 4}" fill="#1a1a1a">reference</text>'
