"""Comparing measured bandwidths with reference values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Bandwidth, Network
from hpcmod.runs.values.bandwidth.comparison import (
    BandwidthReference,
    compare_bandwidths,
    history_references,
    judge_bandwidths,
    profile_references,
)
from hpcmod.runs.values.bandwidth.measurement import BandwidthPoint

POINT = BandwidthPoint("all_reduce", 2, 8, 1 << 30, 3, 1.0, 50.0, 90.0, 85.0, 95.0, 0)
SMALL = replace(POINT, size=1 << 20, busbw=20.0)
REFERENCE = BandwidthReference("all_reduce", 2, 0, 100.0, "profile of x")


@pytest.mark.parametrize(("tolerance", "level"), [(0.2, "ok"), (0.1, "ok"), (0.05, "fail")])
def test_a_point_may_be_below_its_reference_by_the_tolerance(tolerance: float, level: str) -> None:
    (verdict,) = compare_bandwidths([POINT], [REFERENCE], tolerance=tolerance)
    assert (verdict.level, verdict.share) == (level, 0.9)


def test_a_reference_without_a_size_is_for_the_best_size() -> None:
    levels = [one.level for one in compare_bandwidths([SMALL, POINT], [REFERENCE], tolerance=0.2)]
    assert levels == ["unknown", "ok"]


@pytest.mark.parametrize(
    ("size", "levels"),
    [
        pytest.param(1 << 20, ["fail", "unknown"], id="its own size"),
        pytest.param(10**9, ["unknown", "ok"], id="1 GB is near 1 GiB"),
        pytest.param(8 << 30, ["unknown", "unknown"], id="8 GiB was not measured"),
    ],
)
def test_a_reference_with_a_size_is_for_the_size_nearest_to_it(size: int, levels: list[str]) -> None:
    found = compare_bandwidths([SMALL, POINT], [replace(REFERENCE, size=size)], tolerance=0.2)
    assert [one.level for one in found] == levels


@pytest.mark.parametrize("other", [{"nodes": 4}, {"collective": "all_gather"}, {"busbw": 0.0}])
def test_references_for_something_else_do_not_count(other: dict[str, object]) -> None:
    (verdict,) = compare_bandwidths([POINT], [replace(REFERENCE, **other)], tolerance=0.2)  # type: ignore[arg-type]
    assert (verdict.reference, verdict.level, verdict.share) == (None, "unknown", 0.0)


def test_the_profile_comes_before_earlier_runs() -> None:
    earlier = tuple(history_references([replace(POINT, busbw=rate) for rate in (10.0, 12.0, 11.0)]))
    assert [(one.busbw, one.source) for one in earlier] == [(10.0, "slowest of 3 earlier runs")]
    site = Site("x", network=Network(bandwidths=(Bandwidth("all_reduce", 2, 95.0),)))
    (verdict,) = compare_bandwidths([POINT], [*profile_references(site), *earlier], tolerance=0.2)
    assert verdict.reference is not None and verdict.reference.source == "profile of x"


def test_two_earlier_runs_are_too_few() -> None:
    assert list(history_references([POINT, POINT])) == []


def test_findings_say_what_is_slow_what_is_wrong_and_what_has_no_reference() -> None:
    broken = replace(POINT, collective="broadcast", wrong=2)
    verdicts = compare_bandwidths([SMALL, replace(POINT, busbw=50.0), broken], [REFERENCE], tolerance=0.2)
    found = [(one.level, one.rule, one.subject) for one in judge_bandwidths(verdicts, tolerance=0.2)]
    assert found == [
        ("fail", "bandwidth", "all_reduce on 2 nodes, 1 GiB"),
        ("fail", "wrong-values", "broadcast on 2 nodes, 1 GiB"),
        ("unknown", "bandwidth", "broadcast on 2 nodes"),
    ]
