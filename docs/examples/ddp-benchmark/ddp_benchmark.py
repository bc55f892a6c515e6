"""Measure how many images per second a network trains on, as Horovod's pytorch_synthetic_benchmark.py does.

DistributedDataParallel takes the place of Horovod, and a residual network in plain PyTorch that of ResNet-50.
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32, help="images of each rank in a step")
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--width", type=int, default=64, help="channels of the first layer")
parser.add_argument("--num-iters", type=int, default=10)
parser.add_argument("--num-batches-per-iter", type=int, default=10)
options = parser.parse_args()


class Residual(nn.Module):
    """Two convolutions, the first of which halves the image, and a short cut around them."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        first = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.path = nn.Sequential(first, nn.BatchNorm2d(after), nn.ReLU(), second, nn.BatchNorm2d(after))
        self.short = nn.Conv2d(before, after, 1, stride=2, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the sum of both ways."""
        return torch.relu(self.path(images) + self.short(images))


device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()

widths = [3, *(options.width * 2**number for number in range(4))]
layers = [Residual(before, after) for before, after in zip(widths, widths[1:])]
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 1000)).to(device)
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images = torch.randn(options.batch_size, 3, options.image_size, options.image_size, device=device)
labels = torch.randint(1000, (options.batch_size,), device=device)


def train(batches: int) -> float:
    """Train on a number of batches, and return the images per second of this rank."""
    began = time.perf_counter()
    for _ in range(batches):
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    loss.item()  # waits for the GPU
    return batches * options.batch_size / (time.perf_counter() - began)


def show(text: str) -> None:
    """Print a line, on one rank."""
    if rank == 0:
        print(text, flush=True)


show(f"Parameters: {sum(values.numel() for values in model.parameters())}")
show(f"Batch size: {options.batch_size}")
show(f"Number of ranks: {ranks}")
show("Running warmup...")
train(options.num_batches_per_iter)
show("Running benchmark...")
speeds = []
for number in range(options.num_iters):
    speeds.append(train(options.num_batches_per_iter))
    show(f"Iter #{number}: {speeds[-1]:.1f} img/sec per rank")
mean, spread = statistics.mean(speeds), 1.96 * statistics.pstdev(speeds)
show(f"Img/sec per rank: {mean:.1f} +-{spread:.1f}")
show(f"Total img/sec on {ranks} rank(s): {mean * ranks:.1f} +-{spread * ranks:.1f}")
dist.destroy_process_group()
