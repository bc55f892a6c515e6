"""One rank of a torch training job: an all-reduce, then a DistributedDataParallel step; prints a JSON line."""

import json
import os
import socket

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
total = torch.tensor(float(dist.get_rank()))
dist.all_reduce(total)

torch.manual_seed(dist.get_rank())  # different data and weights on each rank: only DDP makes the parameters equal
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(8, 4)).pow(2).mean().backward()
optimizer.step()
mine = torch.cat([values.detach().flatten() for values in model.parameters()])
all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
dist.all_gather(all_of_them, mine)

names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_PORT")
told = {**{name: os.environ.get(name) for name in names}, "total": int(total.item()), "host": socket.gethostname()}
print(json.dumps({**told, "equal": all(torch.equal(mine, other) for other in all_of_them)}), flush=True)
dist.barrier()
dist.destroy_process_group()
