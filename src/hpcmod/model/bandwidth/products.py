"""Matrix products: what each rank's GPU or CPU computed, and which are slower than the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcmod.model.bandwidth.measurement import median_of, parse_number, plain_lines
from hpcmod.model.finding import FAIL, OK, UNKNOWN, Finding

_LINE = re.compile(r"gemm (\d{1,7}) (\S{1,256}) (\S{1,16}) (\S{1,256}) (\S{1,20})$")
_FEWEST = 3  # ranks; of two, neither is the normal one


@dataclass(frozen=True)
class ProductSpeed:
    """The speed of one rank's matrix products."""

    rank: int
    host: str
    device: str
    """Local number of the device."""
    name: str
    speed: float
    """TFLOP/s, median of the runs."""
    runs: int


def read_products(text: str) -> tuple[ProductSpeed, ...]:
    """Return the speeds in the output of hpcmod's program, in the order of the ranks."""
    found: dict[tuple[int, str, str, str], list[float]] = {}
    for line in plain_lines(text):
        match = _LINE.match(line.strip())
        speed = parse_number(match[5]) if match else None
        if match and speed is not None:
            found.setdefault((int(match[1]), match[2], match[3], match[4]), []).append(speed)
    return tuple(ProductSpeed(*key, speed=median_of(speeds), runs=len(speeds)) for key, speeds in sorted(found.items()))


def judge_products(products: Sequence[ProductSpeed], *, tolerance: float) -> Iterator[Finding]:
    """Yield a finding for each rank that is slower than the median of all by more than a fraction."""
    if len(products) < _FEWEST:
        if products:
            yield Finding(
                UNKNOWN,
                "gemm",
                f"{len(products)} ranks are too few to compare",
                "Use at least 3: more -N, or --ranks-per-node.",
                "ranks",
            )
        return
    middle = median_of([one.speed for one in products])
    slow = [one for one in products if one.speed < middle * (1 - tolerance)]
    for one in slow:
        found = f"{one.speed:.4g} TFLOP/s, {one.speed / middle:.0%} of the median of {middle:.4g}"
        cure = f"Leave out the node: --sbatch=--exclude={one.host}, and report it."
        yield Finding(FAIL, "gemm", found, cure, f"rank {one.rank} on {one.host}, device {one.device}")
    if not slow:
        yield Finding(OK, "gemm", f"{len(products)} ranks near the median of {middle:.4g} TFLOP/s", "", "ranks")
