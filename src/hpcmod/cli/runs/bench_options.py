"""Options of `hpcmod bench`, and the values made from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcmod.check.bandwidth.steps import MPI, NCCL_TESTS, TORCH
from hpcmod.cli.runs.allocation import PlaceFlags
from hpcmod.errors import BadInputError
from hpcmod.model.bandwidth.collectives import COLLECTIVES

USUAL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
"""Collectives that training uses."""

_MOST_NODES = 100_000


@dataclass(frozen=True)
class BenchFlags(PlaceFlags):
    """Arguments and options of `hpcmod bench`."""

    names: tuple[str, ...]
    """One container; with `read`, log files."""
    ops: str
    counts: str
    sizes: str
    repeat: int
    iters: int
    library: str | None
    what: str
    data: Path | None
    ranks_per_node: int
    """0: one per GPU."""
    mpi: str
    """Empty: what the image's MPI needs."""
    read: bool
    unit: str | None
    tolerance: int
    """Percent."""
    history: Path | None
    no_history: bool
    html: Path | None
    svg: Path | None
    plot: bool
    dry_run: bool
    as_json: bool


def parse_collectives(text: str, library: str) -> tuple[str, ...]:
    """Return collectives from a list with commas; those that training uses if it is empty.

    Raises
    ------
    BadInputError
        If one is not known, or the library cannot measure it.
    """
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip())) or USUAL
    unknown = [name for name in names if name not in COLLECTIVES]
    if unknown:
        raise BadInputError(f"--ops {unknown[0]}: unknown collective", f"Choose from {', '.join(COLLECTIVES)}.")
    check_measurable(names, library)
    return names


def check_measurable(collectives: Sequence[str], library: str) -> None:
    """Raise BadInputError if a library cannot measure one of these collectives."""
    if "sendrecv" in collectives and library == TORCH:
        raise BadInputError("--ops sendrecv: PyTorch cannot measure it", f"Add --library {MPI} or {NCCL_TESTS}.")


def parse_counts(text: str) -> tuple[int, ...]:
    """Return numbers of nodes from a list with commas, in its order; none if it is empty.

    Raises
    ------
    BadInputError
        If it is not such a list.
    """
    words = [word.strip() for word in text.split(",")] if text else []
    if not all(re.fullmatch(r"[1-9]\d{0,5}", word) for word in words):
        raise BadInputError(f"-N {text}: expected numbers of nodes", "Write -N 2, or -N 1,2,4.")
    return tuple(dict.fromkeys(map(int, words)))
