"""Measure collectives on all ranks of a job step, and print tables like those of nccl-tests.

This file runs in the container, with the image's Python: it needs torch, and nothing of hpcmod. Arguments: FIRST and
LAST size in bytes, REPEATS, and the collectives.
"""

from __future__ import annotations

import sys

sys.path[:] = filter(None, sys.path)  # nothing is imported from the working directory, where others may write

import importlib
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable

FLOAT = 4  # bytes
WARM_UP = 3  # runs before the measurement
FEWEST, MOST = 3, 20  # runs of a measurement
ENOUGH = 1.0  # seconds that a measurement should take; more runs do not make it more precise
PROGRAM_NAMES = {"all_to_all": "alltoall_perf"}
FACTORS: Mapping[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
}
REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
HEADER = (
    "#\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        \n"
)


Run = Callable[[], object]


class TorchRanks:
    """The ranks of torch.distributed, with NCCL or RCCL on GPUs, and gloo on CPUs."""

    def __init__(self) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.dist: Any = importlib.import_module("torch.distributed")
        self.kind = "cuda" if self.torch.cuda.is_available() else "cpu"
        if self.kind == "cuda":
            self.torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % self.torch.cuda.device_count())
        else:
            self.torch.set_num_threads(1)
        self.dist.init_process_group("nccl" if self.kind == "cuda" else "gloo")
        self.rank, self.size = self.dist.get_rank(), self.dist.get_world_size()

    def describe(self) -> tuple[str, str]:
        """Return the library, and the device of this rank."""
        if self.kind == "cuda":
            version = ".".join(map(str, self.torch.cuda.nccl.version()))
            library = "RCCL" if getattr(self.torch.version, "hip", None) else "NCCL"
            return f"{library} {version}", self.torch.cuda.get_device_name()
        return f"gloo of torch {self.torch.__version__}", "CPU"

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, on all ranks."""
        values: list[Any] = [None] * self.size
        self.dist.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Wait until the device has done its work."""
        if self.kind == "cuda":
            self.torch.cuda.synchronize()

    def free_memory(self) -> int:
        """Return the free memory of this rank's device in bytes."""
        if self.kind != "cuda":
            return free_memory_of_node()
        self.torch.cuda.empty_cache()  # what PyTorch keeps of smaller sizes is not free otherwise
        return int(self.torch.cuda.mem_get_info()[0])

    def prepare(self, collective: str, count: int) -> tuple[Run, Callable[[], int]]:
        """Return a function that runs a collective once, and one that counts wrong elements of a run's result.

        `count` is a multiple of the number of ranks.
        """
        torch, dist, mine = self.torch, self.dist, float(self.rank + 1)
        share, total = count // self.size, self.size * (self.size + 1) / 2
        given = torch.full((share if collective == "all_gather" else count,), mine, device=self.kind)
        result = torch.empty(share if collective == "reduce_scatter" else count, device=self.kind)
        wanted = self.wanted(collective, share, count, total)
        if collective in ("all_reduce", "broadcast", "reduce"):
            result = given
        runs: Mapping[str, Run] = {
            "all_reduce": lambda: dist.all_reduce(result),
            "broadcast": lambda: dist.broadcast(result, 0),
            "reduce": lambda: dist.reduce(result, 0),
            "all_gather": lambda: dist.all_gather_into_tensor(result, given),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(result, given),
            "all_to_all": lambda: dist.all_to_all_single(result, given),
        }
        run = runs[collective]

        def count_wrong() -> int:
            given.fill_(mine)
            run()
            return 0 if wanted is None else int((result != wanted).sum().item())

        return run, count_wrong

    def wanted(self, collective: str, share: int, count: int, total: float) -> Any:
        """Return the correct result of a collective in which each rank gives its number, counted from 1."""
        torch = self.torch
        if collective in ("all_gather", "all_to_all"):
            return torch.arange(1.0, self.size + 1, device=self.kind).repeat_interleave(share)
        if collective == "reduce" and self.rank:
            return None
        value = 1.0 if collective == "broadcast" else total
        return torch.full((share if collective == "reduce_scatter" else count,), value, device=self.kind)

    def close(self) -> None:
        """Leave together."""
        self.dist.barrier()
        self.dist.destroy_process_group()


def free_memory_of_node() -> int:
    """Return this rank's share of the free memory of its node in bytes."""
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // ranks


def say(ranks: TorchRanks, text: str) -> None:
    """Print a text once, in one piece."""
    if ranks.rank == 0:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def timed(ranks: TorchRanks, run: Run, runs: int) -> list[float]:
    """Return the seconds that a function takes on each rank, on average over runs."""
    ranks.gather(0)
    start = time.perf_counter()
    for _ in range(runs):
        run()
    ranks.wait()
    return ranks.gather((time.perf_counter() - start) / runs)


def measure(ranks: TorchRanks, collective: str, size: int) -> str:
    """Return the row of a table for a collective and a size in bytes."""
    count = max(size // FLOAT // ranks.size, 1) * ranks.size
    run, count_wrong = ranks.prepare(collective, count)
    wrong = sum(ranks.gather(count_wrong()))
    longest = max(timed(ranks, run, WARM_UP))
    times = timed(ranks, run, max(FEWEST, min(MOST, int(ENOUGH / max(longest, 1e-9)))))
    seconds = sum(times) / ranks.size
    size = count * FLOAT
    algbw = size / seconds / 1e9
    factor = FACTORS.get(collective)
    busbw = algbw * (factor(ranks.size) if factor else 1.0)
    redop = "sum" if collective in REDUCTIONS else "none"
    root = 0 if collective in ("broadcast", "reduce") else -1
    shown = f"{size:12d}  {count:12d}     float  {redop:>6}  {root:6d}"
    return f"{shown}  {seconds * 1e6:7.2f}  {algbw:6.4g}  {busbw:6.4g}  {wrong:6d}"


def measure_collective(ranks: TorchRanks, collective: str, sizes: Sequence[int]) -> None:
    """Print the table of one collective."""
    name = PROGRAM_NAMES.get(collective, f"{collective}_perf")
    say(ranks, f"# Collective test starting: {name}")
    say(ranks, f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor) iters: {MOST}")
    say(ranks, describe_ranks(ranks) + "\n" + HEADER.rstrip("\n"))
    wrong = 0
    for size in sizes:
        if min(ranks.gather(ranks.free_memory())) < 4 * size:
            say(ranks, f"# {size} bytes left out: not enough memory")
            continue
        try:
            row = measure(ranks, collective, size)
        except (KeyError, RuntimeError, NotImplementedError) as err:  # of the backend, before anything is sent
            say(ranks, f"# {collective} left out: {str(err).splitlines()[0][:200]}")
            break
        say(ranks, row)
        wrong += int(row.split()[-1])
    say(ranks, f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}")
    say(ranks, f"# Collective test concluded: {name}")


def describe_ranks(ranks: TorchRanks) -> str:
    """Return the lines with the library, and the host and device of each rank."""
    library, device = ranks.describe()
    mine = (ranks.rank, os.getpid(), socket.gethostname(), os.environ.get("LOCAL_RANK", "0"), device)
    lines = [
        f"#  Rank {rank:2d} Group  0 Pid {pid:6d} on {host:>10} device {local:>2} [none] {name}"
        for rank, pid, host, local, name in ranks.gather(mine)
    ]
    return "\n".join([f"# Library: {library}", "# Using devices", *lines])


def measure_on_ranks(words: Sequence[str]) -> None:
    """Measure what the command line asks for."""
    ranks = TorchRanks()
    first, last, repeats = map(int, words[:3])
    sizes = [first << step for step in range((last // first).bit_length())]
    for _ in range(repeats):
        for collective in words[3:]:
            measure_collective(ranks, collective, sizes)
    ranks.close()


if __name__ == "__main__":
    measure_on_ranks(sys.argv[1:])
