"""Names of collectives: those of PyTorch and site profiles, and the programs of nccl-tests that measure them."""

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
"""By program of nccl-tests and rccl-tests: its collective."""

COLLECTIVES = tuple(PROGRAMS.values())

USUAL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
"""Collectives that training uses."""
