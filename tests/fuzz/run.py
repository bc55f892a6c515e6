"""Feed inputs to readers, and report the results."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.errors import HpcmodError
from tests.fuzz.reader import Reader, prepared

LONGEST = 5.0
"""Maximum CPU seconds for one small input."""
_SHARED = Path("/dev/shm")


@dataclass(frozen=True)
class Result:
    """Result of one reader."""

    inputs: int
    accepted: int
    """Inputs that were parsed; the others were refused with our own error."""
    seconds: float


def feed(reader: Reader, *, name: str, seed: int, inputs: int, seconds: float = float("inf")) -> Result:
    """Feed `inputs` inputs to a reader, or stop after `seconds`.

    Raises AssertionError with seed and input: if the reader raises anything but HpcmodError, has an empty message, or
    hangs.
    """
    dice = random.Random(f"{name} {seed}")  # noqa: S311
    began, accepted, number = time.monotonic(), 0, 0
    for number in _numbers(inputs, began + seconds):
        data = reader.make(dice)
        before = time.monotonic()
        try:
            reader.read(data)
            accepted += 1
        except HpcmodError as err:
            if not err.message:
                raise AssertionError(f"{name}: an error without a message: seed {seed}, input {data[:300]!r}") from err
        except BaseException as err:
            raise AssertionError(f"{name}: seed {seed}, input number {number}: {data[:300]!r}") from err
        if time.monotonic() - before > LONGEST and (used := _processor_time(reader, data)) > LONGEST:
            raise AssertionError(f"{name}: {used:.0f} s for seed {seed}, input {data[:300]!r}")
    return Result(number, accepted, time.monotonic() - began)


def _processor_time(reader: Reader, data: bytes) -> float:
    """Return the CPU seconds that a reader takes, which other processes do not affect."""
    before = time.process_time()
    with contextlib.suppress(HpcmodError):
        reader.read(data)
    return time.process_time() - before


def _memory() -> str | None:
    """Return a directory in memory, where writing files is ten times faster; None for the default directory."""
    return str(_SHARED) if os.access(_SHARED, os.W_OK) else None


def _numbers(inputs: int, end: float) -> Iterator[int]:
    for number in range(1, inputs + 1):
        yield number
        if number % 100 == 0 and time.monotonic() > end:
            return


def report(task: tuple[str, int, int, float]) -> bool:
    """Prepare a reader and feed it; print a line with the result, and return whether the reader passed.

    `task`: Name of the reader, seed, number of inputs, and maximum number of seconds.
    """
    name, seed, inputs, seconds = task
    try:
        directory = tempfile.TemporaryDirectory(prefix="hpcmod-fuzz-", dir=_memory())
        with directory as work, prepared(name, Path(work)) as reader:
            found = feed(reader, name=name, seed=seed, inputs=inputs, seconds=seconds)
    except AssertionError as err:
        print(f"FAILED {err}\n", *traceback.format_exception(err.__cause__)[-6:], flush=True)
        return False
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name:24} {found.inputs:9} {found.accepted:9} {found.seconds:8.0f} {megabytes:6}", flush=True)
    return True
