"""What one node of a job reported about itself, as the node program prints it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hpcmod.core.values.json_form import SPLICED, TABLE
from hpcmod.machine.values.node_gpus import GpuState, parse_gpus


@dataclass(frozen=True)
class Space:
    """Size and free space of a file system, in bytes."""

    size: int
    free: int


@dataclass(frozen=True)
class NodeProblem:
    """Something that a node found wrong with itself."""

    level: str
    rule: str
    found: str


@dataclass(frozen=True)
class KnownGpu:
    """A GPU that the driver knows, whether or not this job may use it."""

    vendor: str
    """amd or nvidia."""
    address: str
    """PCI address; empty if it cannot be read."""
    near: tuple[int, ...]
    """CPUs near it; empty if not known."""


@dataclass(frozen=True)
class HardwareThreads:
    """The hardware threads of a node."""

    cpus: int = 0
    """Hardware threads that are online."""
    allowed: tuple[int, ...] = ()
    """Hardware threads that the job may use."""
    numa: tuple[tuple[int, tuple[int, ...]], ...] = field(default=(), metadata=TABLE)
    """NUMA nodes, and the hardware threads of each."""


@dataclass(frozen=True)
class NodeTimes:
    """What a node measured, and its clock."""

    speed: float = 0.0
    """MB/s of sha256 on one core."""
    share: float = 0.0
    """Part of a core that a process gets; 0 if unknown."""
    skew: float = 0.0
    """Seconds that its clock is ahead of this host's, with the time that its answer took."""
    seconds: float = 0.0
    """Time that it took to find the facts."""


_NO_THREADS, _NO_TIMES = HardwareThreads(), NodeTimes()


@dataclass(frozen=True)
class NodeFacts:
    """Facts of one node; 0 and empty mean not known."""

    name: str
    threads: HardwareThreads = field(default=_NO_THREADS, metadata=SPLICED)
    memory: int = 0
    """Bytes."""
    available: int = 0
    """Bytes of memory that are not in use."""
    spaces: tuple[tuple[str, Space], ...] = field(default=(), metadata=TABLE)
    """Of directories that need free space."""
    interfaces: tuple[tuple[str, str], ...] = field(default=(), metadata=TABLE)
    """Network interfaces except the loopback, and the state of each."""
    gpus: tuple[KnownGpu, ...] = ()
    states: tuple[GpuState, ...] = ()
    """The GPUs that this job may use, as the vendor's tool reports them; empty without the tool."""
    drivers: tuple[tuple[str, str], ...] = field(default=(), metadata=TABLE)
    """Versions of the kernel and the GPU drivers."""
    binds: tuple[str, ...] = ()
    """Of each group of bind candidates, the path that exists; empty if none does."""
    image: str = ""
    """Digest that says whether nodes have the same image: of the file, or of samples of it."""
    whole: bool = False
    """Whether that digest is the sha256 of the complete file."""
    times: NodeTimes = field(default=_NO_TIMES, metadata=SPLICED)
    problems: tuple[NodeProblem, ...] = ()


def parse_facts(values: Mapping[str, Any], arrived: float) -> NodeFacts:
    """Parse the facts of one node; parts that are missing or not valid are left out.

    `arrived`: Time at which its answer arrived, in seconds since 1970.
    """
    memory, image, speed = (_table(values.get(name)) for name in ("memory", "image", "speed"))
    return NodeFacts(
        name=_word(values.get("host")) or "?",
        threads=parse_threads(values),
        memory=_number(memory.get("total")),
        available=_number(memory.get("available")),
        spaces=tuple(
            (_word(path), Space(_number(space.get("size")), _number(space.get("free"))))
            for path, space in sorted(_table(values.get("space")).items())
            if isinstance(space, dict) and "size" in space
        ),
        interfaces=parse_interfaces(values),
        gpus=parse_known_gpus(values),
        states=parse_gpus({_word(name): str(text) for name, text in _table(values.get("tools")).items()}),
        drivers=tuple((_word(name), _word(version)) for name, version in sorted(_table(values.get("drivers")).items())),
        binds=tuple(_word(path) for path in _list(values.get("binds"))),
        image=_word(image.get("sha256") or image.get("sample")),
        whole=bool(image.get("sha256")),
        times=NodeTimes(
            speed=_real(speed.get("best")),
            share=_real(speed.get("share")),
            skew=_real(values.get("clock")) - arrived if values.get("clock") else 0.0,
            seconds=_real(values.get("seconds")),
        ),
        problems=tuple(
            NodeProblem(*map(_word, problem))
            for problem in _list(values.get("problems"))
            if isinstance(problem, list) and len(problem) == 3
        ),
    )


def parse_interfaces(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the network interfaces of a node and their states."""
    interfaces = _table(values.get("interfaces"))
    return tuple((_word(name), _word(_table(interface).get("state"))) for name, interface in sorted(interfaces.items()))


def parse_known_gpus(values: Mapping[str, Any]) -> tuple[KnownGpu, ...]:
    """Return the GPUs that the drivers of a node know, in the drivers' order."""
    gpus = [_table(gpu) for gpu in _list(values.get("gpus"))]
    return tuple(
        KnownGpu(_word(gpu.get("vendor")), _word(gpu.get("address")), _numbers(gpu.get("near"))) for gpu in gpus
    )


def parse_threads(values: Mapping[str, Any]) -> HardwareThreads:
    """Return the hardware threads of a node."""
    cpus = _table(values.get("cpus"))
    numa = ((int(node), _numbers(listed)) for node, listed in _table(cpus.get("numa")).items() if str(node).isdecimal())
    return HardwareThreads(_number(cpus.get("online")), _numbers(cpus.get("allowed")), tuple(sorted(numa)))


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Parse a set of CPUs as Linux and Slurm write it: 0-3,8; parts that are not numbers are left out."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text)
    return tuple(cpu for first, last in ranges for cpu in range(int(first), int(last or first) + 1))


def format_cpus(numbers: Iterable[int]) -> str:
    """Return a set of CPUs as Linux writes it: 0-3,8."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _word(value: Any) -> str:
    return str(value)[:1000] if isinstance(value, (str, int, float)) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _numbers(value: Any) -> tuple[int, ...]:
    return tuple(number for number in _list(value) if isinstance(number, int) and 0 <= number < 1 << 16)


def _real(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e15 else 0.0
