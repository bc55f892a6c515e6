"""Measure collectives on all ranks of a job step, and print tables like those of nccl-tests.

This file runs in the container, with the image's Python: it needs torch or mpi4py, and nothing of hpcmod. Arguments:
LIBRARY (torch or mpi), FIRST and LAST size in bytes, REPEATS, ITERATIONS, and the collectives; or gemm, and REPEATS.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, Union

FLOAT = 4  # bytes
WARM_UP = 3  # runs before the measurement
FEWEST = 3  # runs of a measurement
ENOUGH = 1.0  # seconds that a measurement should take; more runs do not make it more precise
MATRIX = {"cuda": 8192, "cpu": 1024}  # rows of the matrices that are multiplied
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
        found: list[Any] = [None] * self.size
        self.dist.all_gather_object(found, value)
        return found

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

    def multiply(self) -> tuple[int, Run]:
        """Return the number of floating-point operations of a matrix product, and a function that computes it."""
        torch, rows = self.torch, MATRIX[self.kind]
        dtype = torch.bfloat16 if self.kind == "cuda" else torch.float32
        left = torch.rand(rows, rows, device=self.kind).to(dtype)
        return 2 * rows**3, lambda: left @ left

    def close(self) -> None:
        """Leave together."""
        self.dist.barrier()
        self.dist.destroy_process_group()


class MpiRanks:
    """The ranks of the image's MPI, through mpi4py."""

    kind = "cpu"

    def __init__(self) -> None:
        self.mpi: Any = importlib.import_module("mpi4py.MPI")
        self.world = self.mpi.COMM_WORLD
        self.rank, self.size = self.world.rank, self.world.size

    def describe(self) -> tuple[str, str]:
        """Return the library, and the device of this rank."""
        return self.mpi.Get_library_version().split("\n")[0].strip("\0 "), "CPU"

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, on all ranks."""
        return list(self.world.allgather(value))

    def wait(self) -> None:
        """Return at once: the calls of MPI end when their work is done."""

    def free_memory(self) -> int:
        """Return this rank's share of the node's free memory in bytes."""
        return free_memory_of_node()

    def prepare(self, collective: str, count: int) -> tuple[Run, Callable[[], int]]:
        """Return a function that runs a collective once, and one that counts wrong elements of a run's result."""
        world, mine, share = self.world, float(self.rank + 1), count // self.size
        given: Any = array("f", [mine]) * (share if collective == "all_gather" else count)
        result: Any = array("f", [0.0]) * (share if collective == "reduce_scatter" else count)
        if collective in ("broadcast", "sendrecv"):
            result = given
        total = self.size * (self.size + 1) / 2
        runs: Mapping[str, Run] = {
            "all_reduce": lambda: world.Allreduce(given, result),
            "broadcast": lambda: world.Bcast(result, 0),
            "reduce": lambda: world.Reduce(given, result, root=0),
            "all_gather": lambda: world.Allgather(given, result),
            "reduce_scatter": lambda: world.Reduce_scatter_block(given, result),
            "all_to_all": lambda: world.Alltoall(given, result),
            "sendrecv": lambda: self.ping_pong(given),
        }
        run = runs[collective]
        wanted = {
            "broadcast": array("f", [1.0]) * count,
            "sendrecv": given,
            "all_gather": joined(array("f", [rank + 1.0]) * share for rank in range(self.size)),
            "all_to_all": joined(array("f", [rank + 1.0]) * share for rank in range(self.size)),
        }.get(collective, array("f", [total]) * len(result))

        def count_wrong() -> int:
            if collective == "broadcast":
                given[:] = array("f", [mine]) * count
            run()
            if (collective == "reduce" and self.rank) or result == wanted:
                return 0
            return sum(one != other for one, other in zip(result, wanted))

        return run, count_wrong

    def ping_pong(self, buffer: Any) -> None:
        """Send a message from the first rank to the last, and back."""
        last = self.size - 1
        if self.rank == 0:
            self.world.Send(buffer, last)
            self.world.Recv(buffer, last)
        elif self.rank == last:
            self.world.Recv(buffer, 0)
            self.world.Send(buffer, 0)

    def close(self) -> None:
        """Leave together."""
        self.world.Barrier()


Ranks = Union[TorchRanks, MpiRanks]


def joined(parts: Iterable[Any]) -> Any:
    """Return arrays in one."""
    found: Any = array("f")
    for part in parts:
        found.extend(part)
    return found


def free_memory_of_node() -> int:
    """Return this rank's share of the free memory of its node in bytes."""
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // ranks


def say(ranks: Ranks, text: str) -> None:
    """Print a text once, in one piece."""
    if ranks.rank == 0:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def timed(ranks: Ranks, run: Run, runs: int) -> list[float]:
    """Return the seconds that a function takes on each rank, on average over runs."""
    ranks.gather(0)
    start = time.perf_counter()
    for _ in range(runs):
        run()
    ranks.wait()
    return ranks.gather((time.perf_counter() - start) / runs)


def measure(ranks: Ranks, collective: str, size: int, most: int) -> str:
    """Return the row of a table for a collective and a size in bytes."""
    count = max(size // FLOAT // ranks.size, 1) * ranks.size
    run, count_wrong = ranks.prepare(collective, count)
    wrong = sum(ranks.gather(count_wrong()))
    longest = max(timed(ranks, run, WARM_UP))
    times = timed(ranks, run, max(FEWEST, min(most, int(ENOUGH / max(longest, 1e-9)))))
    # a message goes there and back between two ranks, and the others have nothing to do
    seconds = times[0] / 2 if collective == "sendrecv" else sum(times) / ranks.size
    size = count * FLOAT
    algbw = size / seconds / 1e9
    factor = FACTORS.get(collective)
    busbw = algbw * (factor(ranks.size) if factor else 1.0)
    redop = "sum" if collective in REDUCTIONS else "none"
    root = 0 if collective in ("broadcast", "reduce") else -1
    shown = f"{size:12d}  {count:12d}     float  {redop:>6}  {root:6d}"
    return f"{shown}  {seconds * 1e6:7.2f}  {algbw:6.4g}  {busbw:6.4g}  {wrong:6d}"


def measure_collective(ranks: Ranks, collective: str, sizes: Sequence[int], most: int) -> None:
    """Print the table of one collective."""
    name = PROGRAM_NAMES.get(collective, f"{collective}_perf")
    say(ranks, f"# Collective test starting: {name}")
    say(ranks, f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor) iters: {most}")
    say(ranks, describe_ranks(ranks) + "\n" + HEADER.rstrip("\n"))
    wrong = 0
    for size in sizes:
        if min(ranks.gather(ranks.free_memory())) < 4 * size:
            say(ranks, f"# {size} bytes left out: not enough memory")
            continue
        try:
            row = measure(ranks, collective, size, most)
        except (KeyError, RuntimeError, NotImplementedError) as err:  # of the backend, before anything is sent
            say(ranks, f"# {collective} left out: {str(err).splitlines()[0][:200]}")
            break
        say(ranks, row)
        wrong += int(row.split()[-1])
    say(ranks, f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}")
    say(ranks, f"# Collective test concluded: {name}")


def describe_ranks(ranks: Ranks) -> str:
    """Return the lines with the library, and the host and device of each rank."""
    library, device = ranks.describe()
    mine = (ranks.rank, os.getpid(), socket.gethostname(), os.environ.get("LOCAL_RANK", "0"), device)
    lines = [
        f"#  Rank {rank:2d} Group  0 Pid {pid:6d} on {host:>10} device {local:>2} [none] {name}"
        for rank, pid, host, local, name in ranks.gather(mine)
    ]
    return "\n".join([f"# Library: {library}", "# Using devices", *lines])


def measure_products(ranks: TorchRanks, repeats: int) -> None:
    """Print the speed of matrix products on each rank, all at once."""
    operations, run = ranks.multiply()
    say(ranks, "# rank  host  device  name  TFLOP/s")
    for _ in range(repeats):
        run()
        ranks.wait()
        ranks.gather(0)
        start, runs = time.perf_counter(), 0
        while time.perf_counter() - start < ENOUGH / 4:
            run()
            ranks.wait()
            runs += 1
        speed = operations * runs / (time.perf_counter() - start) / 1e12
        mine = (ranks.rank, socket.gethostname(), os.environ.get("LOCAL_RANK", "0"), ranks.describe()[1], speed)
        for rank, host, local, name, rate in ranks.gather(mine):
            say(ranks, f"gemm {rank} {host} {local} {name.replace(' ', '_')} {rate:.4g}")


def measure_on_ranks(words: Sequence[str]) -> None:
    """Measure what the command line asks for."""
    ranks: Ranks = MpiRanks() if words[0] == "mpi" else TorchRanks()
    if words[0] == "gemm" and isinstance(ranks, TorchRanks):
        measure_products(ranks, int(words[1]))
    else:
        first, last, repeats, most = map(int, words[1:5])
        sizes = [first << step for step in range((last // first).bit_length())]
        for _ in range(repeats):
            for collective in words[5:]:
                measure_collective(ranks, collective, sizes, most)
    ranks.close()


if __name__ == "__main__":
    measure_on_ranks(sys.argv[1:])
