"""Published tables of real benchmarks: hpcmod reads the figures that they contain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.machine.machine import load_site
from hpcmod.runs.values.bandwidth.comparison import compare_bandwidths, profile_references
from hpcmod.runs.values.bandwidth.measurement import Measurement, summarize
from hpcmod.runs.values.bandwidth.nccl_tests import read_bandwidths

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Published:
    """A table, where it was published, and its contents."""

    source: str
    count: int
    collective: str
    nodes: int
    ranks: int
    first: tuple[int, float, float, float]
    """Size, time in microseconds, algbw and busbw of the first measurement."""
    last: tuple[int, float, float, float]


PUBLISHED = {
    "hpe-ai-environments": Published(
        "crickett-hpe/hpc-ai-envs, README.md (commit 7dd16ac)",
        28,
        "all_reduce",
        2,
        0,  # its lines of devices are missing
        first=(1 << 20, 105.9, 9.90, 17.33),
        last=(8 << 30, 94730, 90.68, 158.69),
    ),
    "cscs-sarus": Published(
        "eth-cscs/cscs-docs, docs/software/container-engine/sarus-suite/index.md; two of its rows",
        *(4, "all_reduce", 2, 2),
        first=(1 << 20, 339.61, 3.09, 3.09),
        last=(128 << 20, 5867.43, 22.88, 22.88),
    ),
    "rccl-1490": Published(
        "https://github.com/ROCm/rccl/issues/1490, whose lines srun has labelled; three of its rows",
        *(6, "all_gather", 4, 0),
        first=(65536, 107.5, 0.61, 0.59),
        last=(2 << 20, 73593, 0.03, 0.03),
    ),
    "nccl-527": Published(
        "https://github.com/NVIDIA/nccl/issues/527, without its header and with `error`; three of its rows",
        *(6, "", 0, 0),
        first=(64, 163.7, 0.0, 0.0),
        last=(131072, 468.9, 0.28, 0.54),
    ),
    "nccl-tests-82": Published(
        "https://github.com/NVIDIA/nccl-tests/issues/82, whose header has no redop; its command line shortened",
        *(2, "broadcast", 2, 2),
        first=(8, 45.82, 0.0, 0.0),
        last=(8, 38.17, 0.0, 0.0),
    ),
}


def read(name: str, *, nodes: int = 0) -> tuple[Measurement, ...]:
    return read_bandwidths((CORPUS / f"{name}.txt").read_text(encoding="utf-8"), nodes=nodes).measurements


def figures(one: Measurement) -> tuple[int, float, float, float]:
    return one.size, one.time, one.algbw, one.busbw


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_table_has_its_figures(name: str) -> None:
    published, found = PUBLISHED[name], read(name)
    assert len(found) == published.count
    assert {(one.collective, one.nodes, one.ranks) for one in found} == {
        (published.collective, published.nodes, published.ranks)
    }
    assert figures(found[0]) == pytest.approx(published.first, rel=1e-3)
    assert figures(found[-1]) == pytest.approx(published.last, rel=1e-3)


def test_the_average_of_hpes_table_is_the_one_it_prints() -> None:
    found = read("hpe-ai-environments")
    assert sum(one.busbw for one in found) / len(found) == pytest.approx(103.965, abs=0.001)
    assert all(one.wrong == 0 for one in found)


def test_a_machines_own_table_reaches_its_profiles_references() -> None:
    points = summarize(read("hpe-ai-environments"))
    references = profile_references(load_site("cray-ex-gh200", {}))
    verdicts = compare_bandwidths(points, references, tolerance=0.05)
    assert [one.share for one in verdicts if one.reference] == pytest.approx([1.0], abs=0.001)
    assert "fail" not in {one.level for one in verdicts}


def test_what_is_missing_is_reported_and_can_be_given() -> None:
    text = (CORPUS / "nccl-527.txt").read_text(encoding="utf-8")
    assert [one.rule for one in read_bandwidths(text).findings] == ["collective", "nodes"]
    told = read_bandwidths(text, collective="all_reduce", nodes=4)
    assert told.findings == () and {(one.collective, one.nodes) for one in told.measurements} == {("all_reduce", 4)}
    assert {one.nodes for one in read("hpe-ai-environments", nodes=4)} == {2}  # the number in the text wins
