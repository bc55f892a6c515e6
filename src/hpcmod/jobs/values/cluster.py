"""Read what Slurm lists about all nodes and partitions of a machine: the records of `scontrol show`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpcmod.jobs.values.allocation import whole_number
from hpcmod.machine.values.facts import parse_cpu_list

_WORD = re.compile(r"(?:^|\s)([A-Z]\w*(?:\[\d+\])?)=")
_GPUS = re.compile(r"\bgpu(?::([^:,()]+))?:(\d+)")
_WITHOUT = ("", "(null)", "N/A", "None", "none", "UNLIMITED")


@dataclass(frozen=True)
class ListedNode:
    """One node as the scheduler knows it; 0 and empty mean not listed."""

    name: str
    cores: int = 0
    """Physical cores, including reserved ones."""
    threads: int = 1
    """Hardware threads per core."""
    reserved: tuple[int, ...] = ()
    """Physical cores reserved for the system."""
    gpus: int = 0
    gpu_types: tuple[str, ...] = ()
    memory: int = 0
    """Memory that jobs may use, in MiB."""
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()


@dataclass(frozen=True)
class ListedPartition:
    """One partition."""

    name: str
    default: bool = False
    exclusive: bool = False
    """Whether it allocates only full nodes."""
    memory: int = 0
    """Largest memory of a job on one node, in MiB; 0: no limit."""


@dataclass(frozen=True)
class Cluster:
    """What the scheduler lists about the whole machine."""

    name: str = ""
    release: str = ""
    """Release of the scheduler, e.g. 24.11; empty: not known."""
    mpi: str = ""
    """Its default type of MPI; empty: none."""
    nodes: tuple[ListedNode, ...] = ()
    partitions: tuple[ListedPartition, ...] = ()
    commands: tuple[str, ...] = ("the list of nodes", "the list of partitions", "the settings of the scheduler")
    """What printed the nodes, the partitions and the settings, as sources of values."""

    def node(self, name: str) -> ListedNode | None:
        """Return the node with a name; None if there is none."""
        return next((node for node in self.nodes if node.name == name), None)


def parse_cluster(nodes: str, partitions: str, settings: str) -> Cluster:
    """Parse the lists of nodes and partitions, with one record per line or in paragraphs, and the settings."""
    known = dict(re.findall(r"^(\S+)\s*= (.*?)\s*$", settings, re.MULTILINE))
    release = re.match(r"(\d+\.\d+)", known.get("SLURM_VERSION", ""))
    return Cluster(
        name=_said(known.get("ClusterName")),
        release=release[1] if release else "",
        mpi=_said(known.get("MpiDefault")),
        nodes=tuple(filter(None, map(_parse_node, _records(nodes, "NodeName")))),
        partitions=tuple(map(_parse_partition, _records(partitions, "PartitionName"))),
    )


def _records(text: str, first: str) -> Iterator[dict[str, str]]:
    """Yield the records of a list; each begins with the same word."""
    for record in re.split(rf"^(?={first}=)", text, flags=re.MULTILINE):
        if record.startswith(f"{first}="):
            words = _WORD.split(record)
            yield {name: " ".join(value.split()) for name, value in zip(words[1::2], words[2::2])}


def _parse_node(values: Mapping[str, str]) -> ListedNode | None:
    """Parse a node; None if it is in no partition, so that no job runs there."""
    partitions = _list(values.get("Partitions"))
    if not partitions:
        return None
    threads = max(_number(values.get("ThreadsPerCore")), 1)
    gpus = _GPUS.findall(values.get("Gres", ""))
    # CPUSpecList has abstract CPU IDs, in which the threads of a core follow each other: slurm.conf(5), CpuSpecList
    reserved = {cpu // threads for cpu in parse_cpu_list(_said(values.get("CPUSpecList")))}
    return ListedNode(
        name=values["NodeName"],
        cores=_number(values.get("Sockets")) * _number(values.get("CoresPerSocket")),
        threads=threads,
        reserved=tuple(sorted(reserved)),
        gpus=sum(int(count) for _, count in gpus),
        gpu_types=tuple(dict.fromkeys(kind for kind, _ in gpus if kind)),
        memory=max(_number(values.get("RealMemory")) - _number(values.get("MemSpecLimit")), 0),
        partitions=partitions,
        features=_list(values.get("AvailableFeatures")),
    )


def _parse_partition(values: Mapping[str, str]) -> ListedPartition:
    return ListedPartition(
        name=values["PartitionName"],
        default=values.get("Default") == "YES",
        exclusive=values.get("OverSubscribe") == "EXCLUSIVE",
        memory=_number(values.get("MaxMemPerNode")),
    )


def _said(value: str | None) -> str:
    return "" if value is None or value in _WITHOUT else value


def _list(value: str | None) -> tuple[str, ...]:
    return tuple(filter(None, _said(value).split(",")))


def _number(value: str | None) -> int:
    return whole_number(value or "")
