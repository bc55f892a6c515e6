"""Train a few steps on each rank, then read data until the file `go` exists."""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist


def load_data() -> None:
    """Wait like a slow data loader."""
    until = time.time() + 60
    while not Path("go").exists() and time.time() < until:
        sum(range(1000))


torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
dist.barrier()
print("trained", dist.get_rank(), flush=True)
if "wait" in sys.argv:
    load_data()
dist.destroy_process_group()
