"""The real launchers of DeepSpeed and Accelerate: two nodes with two ranks each, one training step.

These tests need HPCMOD_LAUNCHERS, a directory with both and their dependencies except torch, which the image has:

    DS_BUILD_OPS=0 pip wheel --no-build-isolation --no-deps deepspeed  # with a Python that has torch
    pip install --target DIRECTORY --no-deps deepspeed-*.whl accelerate ...  # and all missing dependencies

They are not part of `dev/test`: building DeepSpeed from source, against torch, takes minutes.
"""

from __future__ import annotations

import os

import pytest

from tests.e2e.conftest import Jobs

PACKAGES = os.environ.get("HPCMOD_LAUNCHERS", "")

TRAIN = """
import json, os, socket, sys
import torch, torch.distributed
sys.argv = [word for word in sys.argv if not word.startswith("--local_rank")]
if os.environ["LAUNCHER"] == "deepspeed":
    import deepspeed, deepspeed.comm.torch
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # to compile, and no compiler is here
    deepspeed.init_distributed("gloo")
    model = torch.nn.Linear(2, 1)
    settings = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
    rank = torch.distributed.get_rank()
    engine.backward(engine(torch.full((1, 2), float(rank))).sum())
    engine.step()
    weights = [parameter.detach().clone() for parameter in engine.module.parameters()]
else:
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(torch.nn.Linear(2, 1))
    rank = accelerator.process_index
    accelerator.backward(model(torch.full((1, 2), float(rank))).sum())
    weights = [parameter.grad for parameter in model.parameters()]
total = torch.tensor([rank])
torch.distributed.all_reduce(total)
of_first = [weight.clone() for weight in weights]
for weight in of_first:
    torch.distributed.broadcast(weight, 0)
spread = max(float((mine - first).abs().max()) for mine, first in zip(weights, of_first))
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
told = {**{name: os.environ[name] for name in names}, "total": int(total), "spread": spread}
print(json.dumps({**told, "host": socket.gethostname()}) + chr(10), end="", flush=True)
torch.distributed.destroy_process_group()
"""


if PACKAGES:

    @pytest.mark.stack
    @pytest.mark.parametrize("launcher", ["deepspeed", "accelerate"])
    def test_the_ranks_it_starts_train_together(torch_jobs: Jobs, launcher: str) -> None:
        (torch_jobs.directory / "train.py").write_text(TRAIN)
        env = {"PYTHONPATH": PACKAGES, "LAUNCHER": launcher, "DS_ACCELERATOR": "cpu"}
        inside = {f"APPTAINERENV_{name}": value for name, value in env.items()}
        words = ("-N", "2", "--launcher", launcher, "--ranks-per-node", "2", "--", "train.py")
        number = torch_jobs.submit(*words, APPTAINER_BIND=PACKAGES, **inside)
        torch_jobs.wait(number)
        ranks = torch_jobs.ranks(number)
        assert [rank["LOCAL_RANK"] for rank in ranks] == list("0101")
        assert {(rank["WORLD_SIZE"], rank["total"], rank["spread"]) for rank in ranks} == {("4", 6, 0.0)}
        assert [rank["host"] for rank in ranks] == ["nid001", "nid001", "nid002", "nid002"]
        assert torch_jobs.left_behind() == []
