"""One rank of a 20-step training with torch; prints each loss exactly, and whether its process was forked."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.manual_seed(1234)
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
layers = (torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1))
model = DistributedDataParallel(torch.nn.Sequential(*layers))
size = 20 * 16 * dist.get_world_size()  # 20 steps on each rank
data = TensorDataset(torch.randn(size, 16), torch.randn(size, 1))
sampler = DistributedSampler(data)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()
print("forked" if sys.argv[0] in parent else "plain", rank, flush=True)
for step, (inputs, wanted) in enumerate(DataLoader(data, batch_size=16, sampler=sampler, num_workers=int(sys.argv[1]))):
    loss = torch.nn.functional.mse_loss(model(inputs), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", rank, step, loss.item().hex(), flush=True)
    if step == 19:
        break
dist.barrier()
dist.destroy_process_group()
