"""Markdown tables of bandwidths by number of nodes."""

from __future__ import annotations

import pytest

from hpcmod.model.bandwidth.node_table import read_node_table

TABLE = (
    "| Nodes | Bus bandwidth{0} | Algorithm bandwidth{0} |\n|:-:|:-:|:-:|\n| 2 | 1230.8 | 703.3 |\n\n| 9 | 9 | 9 |\n"
)


@pytest.mark.parametrize(
    ("written", "unit", "busbw"), [(" (Gb/s)", "", 153.85), (" (GB/s)", "Gb/s", 1230.8), ("", "Gbps", 153.85)]
)
def test_the_unit_of_the_text_comes_first(written: str, unit: str, busbw: float) -> None:
    (one,) = read_node_table(TABLE.format(written), unit).measurements
    assert (one.nodes, one.ranks, one.collective, one.busbw) == (2, 8, "all_reduce", busbw)


def test_without_a_unit_nothing_is_read() -> None:
    found = read_node_table(TABLE.format(""))
    assert found.measurements == () and [one.level for one in found.findings] == ["unknown"]


@pytest.mark.parametrize("row", ["| two | 1 | 1 |", "| 2 | ? | 1 |", "| 2 |", "| 2 | 1e999 | 1 |"])
def test_rows_without_numbers_are_skipped(row: str) -> None:
    text = TABLE.format(" (GB/s)").replace("| 2 | 1230.8 | 703.3 |", row)
    assert read_node_table(text).measurements == ()
