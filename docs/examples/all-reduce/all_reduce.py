"""Sum tensors of growing size over all ranks, and print the bandwidth of each size.

Argument: the largest size, as a power of two: 24 for 16 MiB (default), 32 for 4 GiB.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()


def measure(tensor: torch.Tensor, times: int) -> float:
    """Return the seconds that one all-reduce takes, on the slowest rank."""
    dist.all_reduce(tensor)  # the first one makes the connections
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(times):
        dist.all_reduce(tensor)
    if device == "cuda":
        torch.cuda.synchronize()
    slowest = torch.tensor((time.perf_counter() - began) / times, dtype=torch.float64, device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


if rank == 0:
    print(f"all-reduce over {ranks} ranks ({dist.get_backend()})")
    print(f"{'bytes':>12} {'ms':>10} {'busbw GB/s':>12}")
for power in range(10, int((sys.argv[1:] or ["24"])[0]) + 1, 2):
    values = torch.full((2**power // 4,), 1.0, device=device)
    dist.all_reduce(values)
    if not torch.all(values == ranks):
        raise SystemExit(f"rank {rank}: wrong sum of {2**power} bytes")
    seconds = measure(torch.zeros_like(values), times=5)
    # Each rank sends and receives 2 (n - 1) / n of the data: the figure that nccl-tests calls bus bandwidth.
    bandwidth = 2**power / seconds * 2 * (ranks - 1) / ranks / 1e9
    if rank == 0:
        print(f"{2**power:>12} {seconds * 1e3:>10.3f} {bandwidth:>12.3f}", flush=True)
if rank == 0:
    print("all sums are right")
dist.destroy_process_group()
