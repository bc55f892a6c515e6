"""Bar charts in plain text."""

from __future__ import annotations

from hpcmod.model.bandwidth.comparison import BandwidthReference, BandwidthVerdict
from hpcmod.model.bandwidth.measurement import BandwidthPoint
from hpcmod.render.bandwidth_bars import render_bars


def verdict(size: int, busbw: float, *, nodes: int = 2, reference: float = 0.0) -> BandwidthVerdict:
    point = BandwidthPoint("all_reduce", nodes, 8, size, 1, 1.0, busbw / 1.75, busbw, busbw, busbw, 0)
    known = BandwidthReference("all_reduce", nodes, size, reference, "x") if reference else None
    return BandwidthVerdict(point, known, "ok")


def test_bars_are_as_long_as_the_bandwidths_and_fit_the_terminal() -> None:
    found = list(render_bars([verdict(1 << 20, 25.0), verdict(1 << 30, 100.0)], width=40))
    assert found == [
        "all_reduce on 2 nodes: bus bandwidth in GB/s",
        "    1 MiB " + "#" * 7 + " " * 20 + " 25",
        "    1 GiB " + "#" * 26 + " 100",
    ]
    assert max(map(len, found[1:])) <= 40


def test_a_reference_is_marked_in_its_bar() -> None:
    assert list(render_bars([verdict(0, 50.0, reference=100.0)], width=33))[1] == "     best ##########         | 50"


def test_each_number_of_nodes_has_its_bars() -> None:
    lines = list(render_bars([verdict(8, 1.0), verdict(8, 1.0, nodes=4)], width=80))
    assert [line for line in lines if not line or "nodes" in line] == [
        "all_reduce on 2 nodes: bus bandwidth in GB/s",
        "",
        "all_reduce on 4 nodes: bus bandwidth in GB/s",
    ]


def test_no_bar_without_a_measurement() -> None:
    assert list(render_bars([], width=80)) == []
    assert list(render_bars([verdict(8, 0.0)], width=80))[1].endswith(" 0")
