"""Measurements and their summary."""

from __future__ import annotations

from hpcmod.runs.values.bandwidth.measurement import Measurement, summarize


def measured(busbw: float, **more: object) -> Measurement:
    values = {"collective": "all_reduce", "size": 1024, "nodes": 2, "ranks": 8, "time": 10.0, "algbw": busbw / 1.75}
    return Measurement(**{**values, "busbw": busbw, **more})  # type: ignore[arg-type]


def test_runs_of_one_size_are_joined_with_their_median_and_spread() -> None:
    (point,) = summarize([measured(9.0), measured(12.0, wrong=3), measured(10.0, wrong=0)])
    assert (point.runs, point.busbw, point.low, point.high, point.wrong) == (3, 10.0, 9.0, 12.0, 3)


def test_in_place_halves_count_only_where_there_is_nothing_else() -> None:
    both = [measured(9.0), measured(11.0, in_place=True)]
    assert [(point.runs, point.busbw) for point in summarize(both)] == [(1, 9.0)]
    assert [(point.runs, point.busbw) for point in summarize(both[1:])] == [(1, 11.0)]


def test_points_are_in_order_of_collective_nodes_and_size() -> None:
    found = summarize([measured(1.0, nodes=4), measured(1.0, size=8), measured(1.0, collective="all_gather")])
    assert [(point.collective, point.nodes, point.size) for point in found] == [
        ("all_gather", 2, 1024),
        ("all_reduce", 2, 8),
        ("all_reduce", 4, 1024),
    ]
