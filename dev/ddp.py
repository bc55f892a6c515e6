"""One rank of a small training job: a sum over all ranks, then one step of DistributedDataParallel.

Prints one line a rank, and fails if a rank sees another sum or other parameters than the rest.
"""

import os
import socket

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()

total = torch.tensor(rank + 1.0)
dist.all_reduce(total)
if total.item() != ranks * (ranks + 1) / 2:
    raise SystemExit(f"rank {rank}: all-reduce gave {total.item()}")

torch.manual_seed(rank)  # different data and initial values on each rank: only DDP can make the parameters equal
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(8, 4)).pow(2).mean().backward()
optimizer.step()

mine = torch.cat([values.detach().flatten() for values in model.parameters()])
all_of_them = [torch.empty_like(mine) for _ in range(ranks)]
dist.all_gather(all_of_them, mine)
if not all(torch.equal(mine, other) for other in all_of_them):
    raise SystemExit(f"rank {rank}: the parameters differ after a step")

place = f"{socket.gethostname()}, local rank {os.environ['LOCAL_RANK']}"
line = f"rank {rank} of {ranks} on {place}: sum {total.item():g}, parameters equal after one step"
print(line, flush=True)  # noqa: T201  # its purpose
dist.barrier()
dist.destroy_process_group()
