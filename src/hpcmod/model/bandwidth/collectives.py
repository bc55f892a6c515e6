"""Names of collectives, and the formulas of their bandwidths, as nccl-tests defines them.

algbw = size / time, and busbw = algbw * factor, where the factor depends on the collective and the number of ranks: see
doc/PERFORMANCE.md of NVIDIA/nccl-tests ("AllReduce : 2*(n-1)/n, ReduceScatter : (n-1)/n, AllGather : (n-1)/n,
Broadcast : 1, Reduce : 1, AlltoAll : (n-1)/n"). The size is that of the complete data, not of one rank's share.
"""

from __future__ import annotations

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

_SHARED = ("all_gather", "reduce_scatter", "all_to_all")
"""Collectives in which each rank already has its own share of the data."""


def bus_factor(collective: str, ranks: int) -> float:
    """Return the factor from algorithm bandwidth to bus bandwidth; 0 if the collective or its ranks are not known."""
    if collective not in COLLECTIVES or ranks < 1:
        return 0.0
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in _SHARED else 1.0


def algorithm_bandwidth(size: int, time: float) -> float:
    """Return GB/s (10^9 bytes a second) for a size in bytes and a time in microseconds; 0 without a time."""
    return size / time / 1000 if time > 0 else 0.0


def name_collective(algbw: float, busbw: float) -> str:
    """Return the collective that two bandwidths prove; empty if they fit several.

    Only an all-reduce has a bus bandwidth above its algorithm bandwidth.
    """
    return "all_reduce" if algbw > 0 and busbw > algbw * 1.01 else ""


def count_ranks(collective: str, algbw: float, busbw: float, *, digit: float = 0.01, nodes: int = 1) -> int:
    """Return the number of ranks that two bandwidths prove; 0 if their printed digits fit several numbers.

    Parameters
    ----------
    digit
        Value of the last printed digit of both bandwidths.
    nodes
        Number of nodes, each with equally many ranks; 1 if not known.
    """
    if (collective != "all_reduce" and collective not in _SHARED) or algbw <= 0 or busbw <= 0:
        return 0
    factor = busbw / algbw
    rounding = digit / 2 * (1 + factor) / algbw
    missing = (2.0 if collective == "all_reduce" else 1.0) - factor  # 2 / ranks, or 1 / ranks
    if missing <= rounding:
        return 0
    nearest = round((2.0 if collective == "all_reduce" else 1.0) / missing)
    near = [n for n in range(max(2, nearest - 2), nearest + 3) if n % max(nodes, 1) == 0]
    fitting = [n for n in near if abs(bus_factor(collective, n) - factor) <= rounding]
    return fitting[0] if len(fitting) == 1 else 0
