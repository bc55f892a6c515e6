"""Speeds of matrix products, and slow ranks."""

from __future__ import annotations

from hpcmod.model.bandwidth.products import judge_products, read_products


def lines(*speeds: float) -> str:
    return "".join(f"gemm {rank} nid{rank // 2} {rank % 2} CPU {speed}\n" for rank, speed in enumerate(speeds))


def test_runs_of_a_rank_are_joined_by_their_median() -> None:
    (one, other) = read_products(lines(1.0, 2.0) + lines(3.0, 2.0) + lines(2.5, 2.0) + "gemm x\n")
    assert (one.rank, one.host, one.device, one.speed, one.runs) == (0, "nid0", "0", 2.5, 3)
    assert other.speed == 2.0


def test_a_rank_far_below_the_median_is_named() -> None:
    found = list(judge_products(read_products(lines(10, 10.2, 6, 9.9)), tolerance=0.2))
    assert [(one.level, one.subject) for one in found] == [("fail", "rank 2 on nid1, device 0")]
    assert "--exclude=nid1" in found[0].cure


def test_equal_ranks_are_fine_and_two_cannot_be_compared() -> None:
    assert [one.level for one in judge_products(read_products(lines(10, 10, 9)), tolerance=0.2)] == ["ok"]
    assert [one.level for one in judge_products(read_products(lines(10, 1)), tolerance=0.2)] == ["unknown"]
    assert list(judge_products((), tolerance=0.2)) == []
