"""One rank of a torch job: an all-reduce over Gloo; prints its rank variables, host and the sum as a JSON line."""

import json
import os
import socket

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
total = torch.tensor(float(dist.get_rank()))
dist.all_reduce(total)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")
told = {**{name: os.environ.get(name) for name in names}, "total": int(total.item()), "host": socket.gethostname()}
print(f"{json.dumps(told)}\n", end="", flush=True)  # in a single write, as the ranks of torchrun share a pipe
dist.barrier()
dist.destroy_process_group()
