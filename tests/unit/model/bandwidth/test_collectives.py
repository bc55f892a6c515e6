"""Names and formulas of collectives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpcmod.model.bandwidth.collectives import (
    COLLECTIVES,
    algorithm_bandwidth,
    bus_factor,
    count_ranks,
    name_collective,
)


@pytest.mark.parametrize(
    ("collective", "formula"),
    [  # summary of doc/PERFORMANCE.md of nccl-tests
        ("all_reduce", lambda n: 2 * (n - 1) / n),
        ("reduce_scatter", lambda n: (n - 1) / n),
        ("all_gather", lambda n: (n - 1) / n),
        ("all_to_all", lambda n: (n - 1) / n),
        ("broadcast", lambda n: 1),
        ("reduce", lambda n: 1),
        ("sendrecv", lambda n: 1),
    ],
)
def test_factors_are_those_of_nccl_tests(collective: str, formula: Callable[[int], float]) -> None:
    assert [bus_factor(collective, n) for n in (1, 2, 8, 128)] == [formula(n) for n in (1, 2, 8, 128)]
    assert collective in COLLECTIVES


def test_what_is_not_known_has_no_factor() -> None:
    assert bus_factor("all_reduce", 0) == bus_factor("", 8) == bus_factor("hypercube", 8) == 0


def test_bandwidth_is_in_gigabytes_a_second() -> None:
    assert algorithm_bandwidth(8 << 30, 94752) == pytest.approx(90.66, abs=0.01)  # last row of HPE's table
    assert algorithm_bandwidth(8, 0) == 0


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 31, 64, 256])
def test_the_ratio_of_bandwidths_gives_the_ranks(ranks: int) -> None:
    algbw = 1000.0
    assert count_ranks("all_reduce", algbw, round(algbw * bus_factor("all_reduce", ranks), 2)) == ranks


def test_ranks_that_the_digits_do_not_prove_are_unknown() -> None:
    assert count_ranks("all_gather", 0.62, 0.60) == 0
    assert count_ranks("broadcast", 10, 10) == count_ranks("all_reduce", 0, 0) == count_ranks("all_reduce", 1, 2) == 0
    assert count_ranks("all_reduce", 335.4, 660.4, digit=0.1) == 0  # 64 or 65 ranks
    assert count_ranks("all_reduce", 335.4, 660.4, digit=0.1, nodes=16) == 64


def test_only_an_all_reduce_is_faster_on_the_bus_than_in_the_algorithm() -> None:
    assert name_collective(90.66, 158.65) == "all_reduce"
    assert name_collective(10.0, 10.0) == name_collective(10.0, 8.75) == name_collective(0, 0) == ""
