"""Measurements, their summary, and parsing their lines and numbers."""

from __future__ import annotations

import pytest

from hpcmod.runs.values.bandwidth.measurement import Measurement, median_of, parse_number, plain_lines, summarize


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


@pytest.mark.parametrize(("numbers", "median"), [([3], 3), ([1, 2], 1.5), ([9, 1, 5], 5)])
def test_the_median_is_in_the_middle(numbers: list[float], median: float) -> None:
    assert median_of(numbers) == median


@pytest.mark.parametrize(
    ("text", "number"),
    [("12174", 12174), ("1.2e+07", 1.2e7), ("0", 0), ("N/A", None), ("nan", None), ("1e999", None), ("-1", None)],
)
def test_numbers_are_believed_only_if_they_can_be_true(text: str, number: float | None) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize(
    "line", ["row 1", "0: row 1", "12:row 1", " 3: row 1", "[nid001:0]:row 1", "[node-a:3]: row 1"]
)
def test_labels_of_ranks_are_removed(line: str) -> None:
    assert [found.strip() for found in plain_lines(line)] == ["row 1"]


def test_lines_without_a_label_and_endless_ones() -> None:
    assert list(plain_lines("a: b\n[x] y\n" + "z" * 5000)) == ["a: b", "[x] y"]
