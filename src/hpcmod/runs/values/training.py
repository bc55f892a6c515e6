"""Read how fast a training was: logs of PyTorch's DDP benchmark, of Horovod's, and of Hugging Face's Trainer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_MODEL = re.compile(r"(?:Benchmark: (\S{1,60}) with batch size|Model: (\S{1,60})$)")
_DDP = re.compile(r"(\d{1,7}) GPUs -- +(no ddp|\w{1,9}/\w{1,9}): +p50: +([\d.]{1,12})s +([\d.]{1,12})/s")
_HOROVOD = re.compile(r"Total img/sec on (\d{1,7}) \wPU\(s\): ([\d.]{1,12})")
_TRAINER = re.compile(r"train_samples_per_second['\"]?\s*[=:]\s*([\d.]{1,12})")


@dataclass(frozen=True)
class TrainingSpeed:
    """The speed of one training; 0 and empty values mean that it is not known."""

    log: str
    model: str
    layout: str
    """Machines and GPUs as the DDP benchmark writes them, e.g. 2M/8G."""
    gpus: int
    rate: float
    """Samples a second, on all GPUs together."""
    step: float = 0.0
    """Median seconds of an iteration."""
    tflops: float = 0.0
    """TFLOP/s of each GPU: 6 x parameters x length of a sequence x samples a second, for a language model."""
    scaling: float = 0.0
    """Samples a second of each GPU, as a share of those of the run of this model with the fewest GPUs."""

    @property
    def kind(self) -> tuple[str, bool]:
        """Return by what two trainings can be compared."""
        return self.model, bool(self.layout)

    @property
    def each(self) -> float:
        """Return the samples a second of each GPU."""
        return self.rate / self.gpus if self.gpus else 0.0


def read_speeds(log: str, text: str, *, gpus: int) -> Iterator[TrainingSpeed]:
    """Yield the speeds in a log, in its order.

    `gpus`: Number of GPUs where the log does not say it.
    """
    model = ""
    for line in text.splitlines():
        named = _MODEL.search(line)
        model = (named[1] or named[2]) if named else model
        try:
            if row := _DDP.search(line):  # the rate is that of one GPU
                yield TrainingSpeed(log, model, row[2], int(row[1]), float(row[4]) * int(row[1]), float(row[3]))
            elif total := _HOROVOD.search(line):
                yield TrainingSpeed(log, model, "", int(total[1]), float(total[2]))
            elif samples := _TRAINER.search(line):
                yield TrainingSpeed(log, model, "", gpus, float(samples[1]))
        except ValueError:  # not a number, such as 1.2.3
            continue


def compare_speeds(speeds: Sequence[TrainingSpeed], operations: float) -> tuple[TrainingSpeed, ...]:
    """Return speeds with their TFLOP/s and scaling, in the same order.

    `operations`: Floating-point operations of a sample; 0 if not known.
    """
    known = sorted((speed for speed in speeds if speed.each), key=lambda speed: speed.gpus)
    first = {speed.kind: speed.each for speed in reversed(known)}
    return tuple(
        replace(speed, tflops=speed.each * operations / 1e12, scaling=speed.each / first.get(speed.kind, 1.0))
        for speed in speeds
    )
