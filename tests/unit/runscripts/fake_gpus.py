"""Fake GPUs: the GPUs that a program sees on a node according to its environment, as CUDA and HIP document it.

Nothing here runs on a GPU. Each way to choose a device is a function of these GPUs that returns the number of the
GPU on the node; if the real program would fail, it raises DeviceError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


class DeviceError(Exception):
    """The error of a runtime for a device number that does not exist."""


@dataclass(frozen=True)
class FakeGPUs:
    """GPUs as a process sees them."""

    env: Mapping[str, str]
    vendor: str = "amd"
    on_node: int = 8

    @property
    def visible(self) -> tuple[int, ...]:
        """Numbers on the node of the visible GPUs, in the order in which the process sees them."""
        levels = [("ROCR_VISIBLE_DEVICES",), ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")]
        gpus = tuple(range(self.on_node))
        for names in levels if self.vendor == "amd" else [("CUDA_VISIBLE_DEVICES",)]:
            lists = [self.env[name] for name in names if self.env.get(name)]
            if lists:
                numbers = [int(word) for word in lists[0].split(",")]
                end = next((i for i, number in enumerate(numbers) if number >= len(gpus)), len(numbers))
                gpus = tuple(gpus[number] for number in numbers[:end])  # the list ends at the first invalid number
        return gpus

    def device(self, number: int) -> int:
        """Return the number on the node of the GPU `cuda:NUMBER`."""
        if number not in range(len(self.visible)):
            raise DeviceError(f"cuda:{number} of {len(self.visible)}")
        return self.visible[number]


def _local_rank(gpus: FakeGPUs) -> int:
    return gpus.device(int(gpus.env["LOCAL_RANK"]))


def _place(gpus: FakeGPUs) -> int:
    return gpus.device(int(gpus.env["SLURM_LOCALID"]))


def _first(gpus: FakeGPUs) -> int:
    return gpus.device(0)


def _whatever_there_is(gpus: FakeGPUs) -> int:
    if len(gpus.visible) > 1:
        raise DeviceError("every rank takes memory of all GPUs")
    return gpus.device(0)


def _place_modulo(gpus: FakeGPUs) -> int:
    return gpus.device(int(gpus.env["SLURM_LOCALID"]) % len(gpus.visible))


WAYS: Mapping[str, Callable[[FakeGPUs], int]] = {
    '`torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`': _local_rank,
    "`.cuda()` without choosing a device": _first,
    "`cuda:0`": _first,
    "Accelerate": _local_rank,  # PartialState: torch.device("cuda", LOCAL_RANK)
    "DeepSpeed": _local_rank,  # init_distributed: LOCAL_RANK, which --local_rank must equal
    "Lightning": _place,  # SLURMEnvironment.local_rank: SLURM_LOCALID
    "Hugging Face Trainer": _local_rank,  # through Accelerate
    "torchrun": _local_rank,
    "Horovod": _place,  # set_device(hvd.local_rank()), the rank within MPI's shared-memory communicator
    "JAX": _place,  # jax.distributed.initialize: local_device_ids=[SLURM_LOCALID]
    "TensorFlow": _whatever_there_is,
    "MPI, `rank on node % number of devices`": _place_modulo,
}
"""Ways to choose a device in common frameworks, by their names in docs/reference/gpus.md."""
