"""Results of the small all-reduce: reports of ranks, and conclusions from them."""

from __future__ import annotations

import json

import pytest

from hpcmod.core.values.finding import Finding
from hpcmod.runs.values.logs.allreduce import MARK, Results, judge_results


def report(rank: int, library: str = "gloo", **values: object) -> str:
    usual = {"rank": rank, "host": f"nid{rank // 2}", "library": library, "size": 4, "error": "", "seconds": 0.25}
    return MARK + json.dumps({**usual, **values})


def judge(*lines: str, interfaces: tuple[str, ...] = ()) -> list[Finding]:
    results = Results()
    for line in lines:
        results.add(line)
    return list(judge_results(results, ranks=4, interfaces=interfaces))


def test_all_ranks_with_the_right_sum_are_fine() -> None:
    (finding,) = judge(*map(report, range(4)))
    assert (finding.level, finding.subject) == ("ok", "all-reduce over gloo")
    assert finding.found == "4 ranks on 2 nodes, 0.25 s"


@pytest.mark.parametrize(
    ("lines", "rule", "found"),
    [
        ([*map(report, range(3)), report(3, error="x: no")], "gloo", "failed on rank 3 (nid1): x: no"),
        ([report(0), report(2)], "gloo", "no result from rank 1, 3"),
        (["hello"], "ranks", "no rank reported an all-reduce"),
    ],
)
def test_ranks_that_fail_or_are_silent_are_named(lines: list[str], rule: str, found: str) -> None:
    (finding,) = judge(*lines)
    assert (finding.level, finding.rule) == ("fail", rule) and finding.found.startswith(found)


def test_ranks_that_are_alone_are_found() -> None:
    findings = judge(*map(report, range(4)), *(report(rank, "mpi", size=1) for rank in range(4)))
    assert [(finding.level, finding.rule) for finding in findings] == [("ok", "gloo"), ("warn", "mpi")]
    assert "rank 0 is one of 1 ranks, expected 4" in findings[1].found and "--mpi pmix" in findings[1].cure


def test_missing_interfaces_are_named_once_per_node() -> None:
    lines = [report(rank, missing=["GLOO_SOCKET_IFNAME=hsn9"] if rank > 1 else []) for rank in range(4)]
    assert judge(*lines)[-1].found == "no such network interface: GLOO_SOCKET_IFNAME=hsn9 on nid1"


def test_gloo_over_another_interface_is_a_warning() -> None:
    findings = judge(*map(report, range(4)), interfaces=("hsn0", "hsn1"))
    assert findings[-1].found == "gloo uses the interface of the host name, expected hsn0 or hsn1"
    assert judge(*(report(rank, interface="hsn1") for rank in range(4)), interfaces=("hsn0", "hsn1"))[1:] == []


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", '{"rank": "x"}', "[" * 100_000, '{"rank": 1e999}'])
def test_a_broken_report_is_ignored(text: str) -> None:
    results = Results()
    assert results.add(MARK + text)
    assert not results.ranks


def test_a_report_may_stand_behind_the_label_of_a_launcher() -> None:
    results = Results()
    assert results.add(f"[default0]:{report(1)}")
    assert not results.add("no report")
    assert [result.rank for result in results.of("gloo")] == [1]
