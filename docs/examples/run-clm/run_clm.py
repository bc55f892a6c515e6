"""Train and evaluate a causal language model as run_clm.py of transformers does: blocks, accumulated steps, perplexity.

The model is a small transformer without pretrained weights. The text is drawn by the program: after each of 32 tokens
come two others, equally often, so that no model can reach a perplexity below 2.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--block_size", type=int, default=16)
parser.add_argument("--per_device_train_batch_size", type=int, default=16)
parser.add_argument("--gradient_accumulation_steps", type=int, default=2)
parser.add_argument("--num_train_epochs", type=int, default=2)
parser.add_argument("--train_samples", type=int, default=768)
options = parser.parse_args()
TOKENS, WIDTH = 32, 64


def draw(samples: int, seed: int) -> torch.Tensor:
    """Return blocks of the text, each with one more token: the last to be predicted."""
    random = torch.Generator().manual_seed(seed)
    tokens = [torch.randint(TOKENS, (samples,), generator=random)]
    for _ in range(options.block_size):
        choice = torch.randint(2, (samples,), generator=random)
        tokens.append((tokens[-1] * 5 + 3 + 11 * choice) % TOKENS)
    return torch.stack(tokens, dim=1)


class Model(nn.Module):
    """A decoder of one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, blocks: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of the predictions."""
        mask = nn.Transformer.generate_square_subsequent_mask(options.block_size, device=blocks.device)
        scores = self.head(self.layer(self.tokens(blocks[:, :-1]), src_mask=mask, is_causal=True))
        return cross_entropy(scores.flatten(0, 1), blocks[:, 1:].flatten())


device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = DistributedDataParallel(Model().to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
training, evaluation = (draw(count, count)[rank::ranks].to(device) for count in (options.train_samples, 512))
batches = torch.split(training, options.per_device_train_batch_size)
began = time.perf_counter()
for _ in range(options.num_train_epochs):
    for number, batch in enumerate(batches, 1):
        if number % options.gradient_accumulation_steps and number < len(batches):
            with model.no_sync():  # the ranks exchange gradients with the last batch of a step only
                model(batch).backward()
            continue
        loss = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
seconds = time.perf_counter() - began
with torch.no_grad():
    mean = model.module(evaluation) / ranks
dist.all_reduce(mean)
if rank == 0:
    samples = options.train_samples * options.num_train_epochs
    print("***** train metrics *****")
    print(f"  train_loss               = {loss.item():.4f}")
    print(f"  train_runtime            = {seconds:.2f}")
    print(f"  train_samples            = {options.train_samples}")
    print(f"  train_samples_per_second = {samples / seconds:.1f}")
    print("***** eval metrics *****")
    print(f"  eval_loss                = {mean.item():.4f}")
    print(f"  perplexity               = {mean.exp().item():.3f}")
dist.destroy_process_group()
