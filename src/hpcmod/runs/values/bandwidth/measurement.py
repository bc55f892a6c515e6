"""Collectives, what one line of a benchmark says of one, and what several lines say together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

PROGRAMS = {
    "all_reduce_perf": "all_reduce",
    "all_gather_perf": "all_gather",
    "reduce_scatter_perf": "reduce_scatter",
    "alltoall_perf": "all_to_all",
    "broadcast_perf": "broadcast",
    "reduce_perf": "reduce",
    "sendrecv_perf": "sendrecv",
}
"""By program of nccl-tests and rccl-tests: its collective, as PyTorch and site profiles name it."""

COLLECTIVES = tuple(PROGRAMS.values())

USUAL = COLLECTIVES[:5]
"""Collectives that training uses."""

WRONG = "Run it on other nodes: wrong values come from broken hardware, a driver or a library."
"""What helps against wrong values."""


@dataclass(frozen=True)
class Measurement:
    """One measured bandwidth; 0 and empty values mean that the text does not say."""

    collective: str
    size: int
    """Of the complete data, in bytes."""
    nodes: int
    ranks: int
    time: float
    """Microseconds."""
    algbw: float
    """Algorithm bandwidth in GB/s (10^9 bytes a second)."""
    busbw: float
    """Bus bandwidth in GB/s."""
    in_place: bool = False
    wrong: int = -1
    """Elements with a wrong value; -1: not checked."""


@dataclass(frozen=True)
class BandwidthPoint:
    """The measurements of one collective, node count and size: medians, and the spread of the bus bandwidth."""

    collective: str
    nodes: int
    ranks: int
    size: int
    runs: int
    time: float
    """Microseconds, as for a measurement."""
    algbw: float
    busbw: float
    low: float
    """Lowest bus bandwidth of the runs in GB/s."""
    high: float
    wrong: int = -1
    """Largest number of wrong elements in a run; -1: not checked."""


def summarize(measurements: Iterable[Measurement]) -> tuple[BandwidthPoint, ...]:
    """Return a point for each collective, node count, number of ranks and size, in this order.

    Where a run has both, only its out-of-place half counts: in-place halves would hide a run's own spread.
    """
    groups: dict[tuple[str, int, int, int], list[Measurement]] = {}
    for each in measurements:
        groups.setdefault((each.collective, each.nodes, each.ranks, each.size), []).append(each)
    return tuple(_join(group) for _, group in sorted(groups.items()))


def _join(group: list[Measurement]) -> BandwidthPoint:
    first = group[0]
    counted = [each for each in group if not each.in_place] or group
    rates = [each.busbw for each in counted]
    return BandwidthPoint(
        first.collective,
        first.nodes,
        first.ranks,
        first.size,
        runs=len(counted),
        time=median(each.time for each in counted),
        algbw=median(each.algbw for each in counted),
        busbw=median(rates),
        low=min(rates),
        high=max(rates),
        wrong=max(each.wrong for each in group),
    )
