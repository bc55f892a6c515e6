"""Train a small convolutional network to read digits, with DistributedDataParallel.

The images are drawn by the program: 28 x 28 pixels as in MNIST, each digit at its own place, and with noise.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, interpolate
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

DIGITS = ["75557", "26227", "71747", "71717", "55711", "74717", "74757", "71111", "75757", "75717"]
"""Five rows of three pixels for each digit; 5 is 101."""


def draw(count: int, seed: int) -> TensorDataset:
    """Return images of digits, with the digits."""
    random = torch.Generator().manual_seed(seed)
    rows = [[[float(bit) for bit in f"{int(row):03b}"] for row in digit] for digit in DIGITS]
    glyphs = interpolate(torch.tensor(rows).unsqueeze(1), scale_factor=4)  # 12 x 20 pixels
    digits = torch.randint(10, (count,), generator=random)
    images = torch.rand(count, 1, 28, 28, generator=random) * 0.6
    corners = zip(torch.randint(2, 7, (count,), generator=random), torch.randint(6, 11, (count,), generator=random))
    for image, digit, (top, left) in zip(images, digits, corners):
        image[:, top : top + 20, left : left + 12] += glyphs[digit]
    return TensorDataset(images, digits)


device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
convolutions = [nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()]
model = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(16 * 5 * 5, 10)).to(device)
model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
training, tests = draw(1536, seed=1), draw(500, seed=2)
sampler = DistributedSampler(training)  # each rank gets its share of the images
loader = DataLoader(training, batch_size=max(1, 64 // ranks), sampler=sampler)

for epoch in range(1, 4):
    sampler.set_epoch(epoch)  # another order in each epoch
    for images, digits in loader:
        optimizer.zero_grad()
        loss = cross_entropy(model(images.to(device)), digits.to(device))
        loss.backward()  # DistributedDataParallel averages the gradients of all ranks here
        optimizer.step()
    with torch.no_grad():
        images, digits = (values[rank::ranks].to(device) for values in tests.tensors)
        right = (model.module(images).argmax(1) == digits).sum()
    dist.all_reduce(right)
    if rank == 0:
        print(f"epoch {epoch}: {right.item() / len(tests):.1%} of {len(tests)} digits right, {ranks} ranks", flush=True)
dist.destroy_process_group()
