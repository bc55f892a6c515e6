"""Read the measurements, and derive the model's parameters from starts on a single node only."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from tests.simulate.model import Costs, Machine, Staging

MEASURED = Path(__file__).with_name("measured.toml")


@dataclass(frozen=True)
class Point:
    """A measured start on several virtual nodes."""

    way: str
    nodes: int
    ranks: int
    """Ranks per node."""
    wall: tuple[float, ...]
    """Seconds in each round."""

    @property
    def median(self) -> float:
        """Return the median of all rounds."""
        return statistics.median(self.wall)


@dataclass(frozen=True)
class Measured:
    """The content of measured.toml."""

    costs: Costs
    machine: Machine
    """The machine on which it was measured."""
    points: tuple[Point, ...]
    date: str
    crowding: float
    """Relative extra CPU time of a rank that shares its node with 15 others, instead of three: not in the model."""
    background: tuple[float, ...]
    """Number of cores that other programs used before each round; empty if not measured."""


def read_measured(path: Path = MEASURED) -> Measured:
    """Return the measurements in a file."""
    values = tomllib.loads(path.read_text())
    points = tuple(Point(p["way"], p["nodes"], p["ranks"], tuple(p["wall"])) for p in values["points"])
    machine, background = Machine(cores=values["cores"], one_host=True), tuple(values["background"])
    of_few, of_many = (statistics.median(values["single"][f"plain-{ranks}"]["cpu"]) / ranks for ranks in (4, 16))
    return Measured(_costs(values), machine, points, values["date"], of_many / of_few - 1, background)


def _costs(values: Mapping[str, Any]) -> Costs:
    def cpu(name: str) -> float:
        return statistics.median(values["single"][name]["cpu"])

    task = max(cpu("step-8") - cpu("step-1"), 0.0) / 7
    container = (cpu("container-8") - cpu("container-1")) / 7 - task
    script = (cpu("python-8") - cpu("python-1")) / 7 - task - container
    begin = task + container + script
    fork, shared = (cpu("fork-8") - cpu("fork-2")) / 6, (cpu("one-per-node-8") - cpu("one-per-node-2")) / 6
    imports = cpu("plain-4") / 4 - begin  # with two ranks per core, no core is idle
    waking = max((cpu("plain-1") - begin) / imports - 1, 0.0)
    ways = {name.removesuffix("-image") for name in values["single"] if name.endswith("-image")}
    return Costs(
        step=max(statistics.median(values["single"]["step-2"]["wall"]) - cpu("step-2"), 0.0),
        task=task,
        container=container,
        script=script,
        imports=imports,
        fork=max(fork - begin, 0.0),
        fork_once=(cpu("fork-8") - 8 * fork) / (1 + waking),
        shared=shared - task,
        shared_once=(cpu("one-per-node-8") - 8 * shared) / (1 + waking),
        staging={way: _staging(values, way) for way in ways},
        image_bytes=values["image_bytes"],
        start_bytes=values["cold"]["start_bytes"],
        calls=values["container_calls"],
        waking=waking,
    )


def _staging(values: Mapping[str, Any], way: str) -> Staging:
    def median(name: str, what: str) -> float:
        return statistics.median(values["single"][f"{way}-{name}"][what])

    sent_small, sent = (statistics.median(values["sender"][f"{way}-{name}"]) for name in ("small", "image"))
    more = values["image_bytes"] - values["small_bytes"]
    once_per_byte = (sent - sent_small) / more
    per_byte = (median("image", "cpu") - median("small", "cpu")) / more - once_per_byte
    serial = min(per_byte, (median("image", "wall") - median("small", "wall")) / more)
    once = sent_small - once_per_byte * values["small_bytes"]
    node = median("small", "cpu") - sent_small - per_byte * values["small_bytes"]
    return Staging(
        seconds=max(median("small", "wall") - median("small", "cpu") / 2, 0.0),
        once=max(once, 0.0),
        once_per_byte=once_per_byte,
        node=max(node, 0.0),
        node_per_byte=serial,
        beside_per_byte=per_byte - serial,
    )
