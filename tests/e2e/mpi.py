"""One rank of a job that reduces twice: with mpi4py over the image's MPI, with torch over Gloo. Prints a JSON line."""

import json
import os
import socket
from pathlib import Path

import torch
import torch.distributed as dist
from mpi4py import MPI

torch.set_num_threads(1)
world = MPI.COMM_WORLD
by_mpi = world.allreduce(world.rank)
dist.init_process_group("gloo")
by_gloo = torch.tensor(float(dist.get_rank()))
dist.all_reduce(by_gloo)
mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
told = {
    "RANK": os.environ["RANK"],
    "mpi": [world.rank, world.size, by_mpi],
    "gloo": int(by_gloo.item()),
    "library": MPI.Get_library_version().split("\n")[0].strip("\0"),
    "loaded": sorted(path for path in mapped if "/libmpi.so" in path or "/libfabric" in path),
    "host": socket.gethostname(),
}
print(f"{json.dumps(told)}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
