"""Which cores, GPU and network interface each rank of a job has, and which pairings are wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcmod.core.values.finding import FAIL, WARN, Finding
from hpcmod.machine.values.facts import KnownGpu, format_cpus, parse_interfaces, parse_known_gpus, parse_threads
from hpcmod.machine.values.site import NodeType


@dataclass(frozen=True)
class RankPlace:
    """Where one rank runs."""

    rank: int
    local: int
    """Its number on its node."""
    host: str
    cpus: tuple[int, ...]
    """Hardware threads that it may use."""
    online: int
    """Hardware threads of the node."""
    numa: tuple[int, ...] = ()
    """NUMA nodes of its hardware threads."""
    gpu: int | None = None
    """GPU that the run script gives it, as the profile counts them; None: none, or all of them."""
    near: tuple[int, ...] = ()
    """Hardware threads near that GPU; empty if not known."""
    interface: str = ""
    """Network interface for its GPU, in the profile's order; empty if not known."""

    @property
    def bound(self) -> bool:
        """Return whether the launcher bound it; otherwise the run script does, if it has a GPU."""
        return 0 < len(self.cpus) < self.online


def parse_rank(values: Mapping[str, Any], *, node: NodeType, ranks: int, interfaces: Sequence[str] = ()) -> RankPlace:
    """Parse the answer of one rank.

    `node`: Node type that the profile has for these nodes.
    `ranks`: Ranks on each node.
    `interfaces`: Network interfaces of the profile, in the order of the GPUs.
    """
    threads = parse_threads(values)
    local = int(values.get("local") or 0)
    gpus = parse_known_gpus(values)
    count = node.gpus or len(gpus)
    gpu = local if count and ranks <= count and local < count else None
    there = [name for name in interfaces if name in dict(parse_interfaces(values))]
    return RankPlace(
        rank=int(values.get("rank") or 0),
        local=local,
        host=str(values.get("host") or "?"),
        cpus=threads.allowed,
        online=threads.cpus,
        numa=tuple(number for number, listed in threads.numa if set(listed) & set(threads.allowed)),
        gpu=gpu,
        near=() if gpu is None else _find_near(gpu, node, gpus),
        interface=there[gpu * len(there) // count] if there and gpu is not None and gpu < count else "",
    )


def _find_near(gpu: int, node: NodeType, gpus: Sequence[KnownGpu]) -> tuple[int, ...]:
    """Return the hardware threads near a GPU: those of the profile, else those that Linux reports."""
    if gpu < len(node.gpu_cores):
        cores = node.gpu_cores[gpu]
        return tuple(core + thread * node.all_cores for thread in range(node.threads_per_core) for core in cores)
    return gpus[gpu].near if gpu < len(gpus) else ()


def judge_ranks(places: Sequence[RankPlace]) -> list[Finding]:
    """Return wrong pairings of ranks with cores and GPUs, by node."""
    hosts = dict.fromkeys(place.host for place in places)
    return [finding for host in hosts for finding in _judge_host([place for place in places if place.host == host])]


def _judge_host(places: Sequence[RankPlace]) -> Iterator[Finding]:
    host = places[0].host
    bound = [place for place in places if place.bound]
    users = Counter(cpu for place in bound for cpu in place.cpus)
    shared = [cpu for cpu, count in users.items() if count > 1]
    if shared:
        ranks = [str(place.rank) for place in bound if set(place.cpus) & set(shared)]
        found = f"ranks {', '.join(ranks)} share CPUs {format_cpus(shared)}"
        cure = "Give each rank its own cores, as the masks of `hpcmod job` and `hpcmod launch` do."
        yield Finding(FAIL, "shared-cores", found, cure, host)
    for place in bound:
        far = set(place.cpus) - set(place.near)
        if place.near and far:
            found = f"rank {place.rank} with GPU {place.gpu} runs on CPUs {format_cpus(place.cpus)}"
            cure = "Use the masks of `hpcmod job` or `hpcmod launch`."
            yield Finding(WARN, "far-cores", f"{found}; near it are {format_cpus(place.near)}", cure, host)
        elif len(place.numa) > 1 and place.gpu is not None and not place.near:
            found = f"rank {place.rank} runs on NUMA nodes {', '.join(map(str, place.numa))}"
            yield Finding(WARN, "numa", found, "Bind each rank to cores of one NUMA node.", host)
