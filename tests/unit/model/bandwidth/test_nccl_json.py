"""The JSON report of nccl-tests, with the fields that its src/util.cu writes."""

from __future__ import annotations

import json

import pytest

from hpcmod.model.bandwidth.nccl_json import read_nccl_json

HALF = {"time": 105.9, "alg_bw": 9.9, "bus_bw": 17.33, "nwrong": 0}
REPORT = {
    "version": 2,
    "args": ["./build/all_reduce_perf", "-J", "x.json"],
    "config": {"devices": [{"rank": rank, "hostname": f"nid{rank // 4}"} for rank in range(8)]},
    "results": [{"size": 1048576, "out_of_place": HALF, "in_place": {**HALF, "nwrong": None}}],
    "out_of_bounds": {"count": 0, "okay": "true"},
}


def test_a_report_has_collective_nodes_ranks_and_both_halves() -> None:
    found = read_nccl_json(json.dumps(REPORT))
    assert found is not None and found.findings == ()
    assert [(one.collective, one.size, one.nodes, one.ranks) for one in found.measurements] == [
        ("all_reduce", 1 << 20, 2, 8)
    ] * 2
    assert [(one.time, one.algbw, one.busbw, one.in_place, one.wrong) for one in found.measurements] == [
        (105.9, 9.9, 17.33, False, 0),
        (105.9, 9.9, 17.33, True, -1),
    ]


def test_wrong_values_are_a_failure() -> None:
    found = read_nccl_json(json.dumps({**REPORT, "out_of_bounds": {"count": 3}}))
    assert found is not None and [one.rule for one in found.findings] == ["wrong-values"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "# size", "{" * 5000, '{"results": 1}'])
def test_other_texts_are_not_reports(text: str) -> None:
    assert read_nccl_json(text) is None


@pytest.mark.parametrize("args", [-1, None, [], [7], {"0": "all_reduce_perf"}])
def test_a_report_without_its_command_line_has_no_collective(args: object) -> None:
    found = read_nccl_json(json.dumps({**REPORT, "args": args}))
    assert found is not None and {one.collective for one in found.measurements} == {""}


@pytest.mark.parametrize("row", [1, {}, {"size": "8"}, {"size": 8, "in_place": {"time": "x"}}, {"size": True}])
def test_rows_without_figures_are_skipped(row: object) -> None:
    found = read_nccl_json(json.dumps({"results": [row]}))
    assert found is not None and found.measurements == ()
