"""Train a small GPT to continue a text, letter by letter, and let it write; go on from the last checkpoint.

The text counts in words. Argument: the file of the checkpoint (default: gpt.pt).
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

TEXT = "zero one two three four five six seven eight nine " * 50
LETTERS = sorted(set(TEXT))
CONTEXT, WIDTH, STEPS = 16, 32, 40


class Gpt(nn.Module):
    """A transformer that sees the letters before each letter."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return the scores of all letters that may come next, after each letter."""
        length = text.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=text.device)
        inputs = self.letters(text) + self.positions(torch.arange(length, device=text.device))
        return self.head(self.blocks(inputs, mask=mask, is_causal=True))


device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()

torch.manual_seed(rank)  # each rank reads other pieces of the text
data = torch.tensor([LETTERS.index(letter) for letter in TEXT], device=device)
model = DistributedDataParallel(Gpt().to(device))  # with the first values of rank 0
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
checkpoint, first = Path((sys.argv[1:] or ["gpt.pt"])[0]), 0
if checkpoint.exists():
    saved = torch.load(checkpoint, map_location=device, weights_only=True)
    model.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]

for step in range(first + 1, first + STEPS + 1):
    starts = torch.randint(len(data) - CONTEXT, (12,)).tolist()
    pieces = torch.stack([data[start : start + CONTEXT + 1] for start in starts])
    scores = model(pieces[:, :-1])
    loss = cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 10 == 0:
        print(f"step {step}: loss {loss.item():.3f}, {ranks} ranks", flush=True)

if rank == 0:
    values = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(values, checkpoint.with_suffix(".part"))
    checkpoint.with_suffix(".part").replace(checkpoint)  # a killed job leaves the old one
    text = [LETTERS.index(letter) for letter in "three "]
    with torch.no_grad():
        for _ in range(20):
            scores = model.module(torch.tensor([text[-CONTEXT:]], device=device))
            text.append(scores[0, -1].argmax().item())
    print(f"it writes: {''.join(LETTERS[letter] for letter in text)}")
dist.barrier()
dist.destroy_process_group()
