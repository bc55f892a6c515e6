"""What one line of a benchmark says, what several of them say together, and the result of reading a text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hpcmod.core.values.finding import Finding

MOST = 1e9
"""Largest number of GB/s or microseconds that is believed; what is beyond it is an error of the text."""


@dataclass(frozen=True)
class Measurement:
    """One measured bandwidth; 0 and empty values mean that the text does not say."""

    collective: str
    size: int
    """Of the complete data, in bytes."""
    nodes: int
    ranks: int
    time: float
    """Microseconds."""
    algbw: float
    """Algorithm bandwidth in GB/s (10^9 bytes a second)."""
    busbw: float
    """Bus bandwidth in GB/s."""
    in_place: bool = False
    wrong: int = -1
    """Elements with a wrong value; -1: not checked."""


@dataclass(frozen=True)
class TableReading:
    """The measurements in a text, in its order, and what is wrong or unknown about them."""

    measurements: tuple[Measurement, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class BandwidthPoint:
    """The measurements of one collective, node count and size: medians, and the spread of the bus bandwidth."""

    collective: str
    nodes: int
    ranks: int
    size: int
    runs: int
    time: float
    """Microseconds, as for a measurement."""
    algbw: float
    busbw: float
    low: float
    """Lowest bus bandwidth of the runs in GB/s."""
    high: float
    wrong: int = -1
    """Largest number of wrong elements in a run; -1: not checked."""


def summarize(measurements: Iterable[Measurement]) -> tuple[BandwidthPoint, ...]:
    """Return a point for each collective, node count, number of ranks and size, in this order.

    Where a run has both, only its out-of-place half counts: in-place halves would hide a run's own spread.
    """
    groups: dict[tuple[str, int, int, int], list[Measurement]] = {}
    for one in measurements:
        groups.setdefault((one.collective, one.nodes, one.ranks, one.size), []).append(one)
    return tuple(_join(*key, group) for key, group in sorted(groups.items()))


def _join(collective: str, nodes: int, ranks: int, size: int, group: list[Measurement]) -> BandwidthPoint:
    counted = [one for one in group if not one.in_place] or group
    rates = [one.busbw for one in counted]
    return BandwidthPoint(
        *(collective, nodes, ranks, size, len(counted)),
        time=median_of([one.time for one in counted]),
        algbw=median_of([one.algbw for one in counted]),
        busbw=median_of(rates),
        low=min(rates),
        high=max(rates),
        wrong=max(one.wrong for one in group),
    )


def median_of(numbers: Sequence[float]) -> float:
    """Return the median of at least one number; not by `statistics`, whose import takes longer than its work."""
    listed, middle = sorted(numbers), len(numbers) // 2
    return listed[middle] if len(listed) % 2 else (listed[middle - 1] + listed[middle]) / 2


def parse_number(text: str) -> float | None:
    """Return a number of a table, which is not negative; None if it is not one, or is not believable."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and 0 <= number <= MOST else None


def plain_lines(text: str) -> Iterator[str]:
    """Yield the lines of a log without the label of the rank, which `srun --label` and torchrun put in front.

    Lines that are longer than any line of a table are left out.
    """
    for line in text.splitlines():
        if len(line) <= _LONGEST:
            yield _without_label(line)


_LONGEST = 4096  # characters


def _without_label(line: str) -> str:
    start = line.lstrip()
    number, colon, rest = start.partition(":")
    if colon and number.isdigit() and len(number) < 8:
        return rest
    if start.startswith("["):
        label, mark, rest = start.partition("]:")
        if mark and not any(letter.isspace() for letter in label):
            return rest
    return line
