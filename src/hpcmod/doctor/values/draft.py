"""Make the draft of a site profile from what a machine says about itself; what it does not say is named."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hpcmod.doctor.values.survey import NodeSurvey, local_disks, shared_paths
from hpcmod.jobs.values.cluster import Cluster, ListedNode
from hpcmod.machine.values.facts import format_cpus

_VENDORS = (("amd", r"mi\d{2,3}\w*"), ("nvidia", r"(?:nvidia|tesla|[abhlvpkt]\d{1,3}|g[bh]\d{3}|rtx|gtx|quadro)\w*"))
"""Names that sites give to types of GPUs in their scheduler."""


class Value(NamedTuple):
    """One value of a profile."""

    key: str
    """Dotted, e.g. nodes.gpu.cores."""
    value: Any
    source: str
    """What said so."""


class Unknown(NamedTuple):
    """A key that could not be found out."""

    key: str
    why: str
    """Why, and how to find out."""


@dataclass(frozen=True)
class Draft:
    """A new profile."""

    notes: tuple[str, ...]
    """Lines for the comment at its top."""
    values: tuple[Value, ...]
    unknown: tuple[Unknown, ...]


@dataclass(frozen=True)
class MachineEvidence:
    """All that was found out about a machine."""

    host: str
    """The node on which it was found out."""
    home: str
    cluster: Cluster | None = None
    surveys: tuple[NodeSurvey, ...] = ()
    """Compute nodes; this machine itself if it has no scheduler."""
    mpi: tuple[str, ...] | None = None
    """Types of MPI that the scheduler offers; None: not known."""
    module_tool: str = ""
    """Name and version."""
    module_init: tuple[str, str] = ("", "")
    """File that defines `module` in bash, and where its path is from."""
    runtime: str = ""
    """Name and version of the container runtime."""
    silent: str = ""
    """Why the scheduler's lists are missing."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Return what printed the nodes, the partitions and the settings."""
        return (self.cluster or Cluster()).commands


@dataclass(frozen=True)
class _Type:
    """Nodes that are alike."""

    name: str
    nodes: tuple[ListedNode, ...]

    @property
    def first(self) -> ListedNode:
        return self.nodes[0]


def make_draft(evidence: MachineEvidence, *, name: str, date: str) -> Draft:
    """Make a draft.

    `name`: Name of the profile.
    `date`: Month and year in which the machine was asked.
    """
    types = _make_types(evidence)
    vendor, vendor_source = _find_vendor(evidence, types)
    found = [
        Value("name", name, ""),
        Value("extends", f"generic-{vendor}" if vendor else "generic", vendor_source),
        Value("description", _describe(name, evidence, types), ""),
    ]
    unknown = [Unknown("images.central", "directories with the site's images cannot be found out: ask the site")]
    rest = [entry for part in (_binds, _network, _nodes, _launcher, _job) for entry in part(evidence, types)]
    found += [entry for entry in rest if isinstance(entry, Value)]
    unknown += [entry for entry in rest if isinstance(entry, Unknown)]
    if not vendor and any(kind.first.gpus for kind in types):
        asked = " or ".join(survey.facts.name for survey in evidence.surveys)
        silent = f"no driver of GPUs answered on {asked}: ask a node that has them, or extend generic-amd or -nvidia"
        unknown.append(Unknown("gpu", silent if asked else _ASK))
    return Draft(tuple(_notes(evidence, date)), tuple(found), tuple(unknown))


def _notes(evidence: MachineEvidence, date: str) -> Iterator[str]:
    fabric = next(
        (f"{survey.fabric}: {survey.fabric_source}" for survey in evidence.surveys if survey.fabric), "not known"
    )
    yield f"Network: {fabric}"
    yield f"Module tool: {evidence.module_tool or 'none found'}"
    yield f"Container runtime: {evidence.runtime or 'none found'}"
    asked = ", ".join(survey.facts.name for survey in evidence.surveys) or "no compute node"
    yield f"As found in {date} by `hpcmod site new` on {evidence.host}; compute nodes that were asked: {asked}"
    for survey in evidence.surveys:
        described = ", ".join(filter(None, (survey.architecture, survey.system)))
        gpus = Counter(state.name for state in survey.facts.states if state.name)
        listed = "".join(f"; {count} {name}" for name, count in gpus.items())
        if described or listed:
            yield f"{survey.facts.name}: {described or 'system not known'}{listed}"
    if evidence.silent:
        yield f"Without a scheduler: {evidence.silent}"


def _describe(name: str, evidence: MachineEvidence, types: Sequence[_Type]) -> str:
    listed = [_count(kind.nodes, f"{kind.name} node") for kind in types if evidence.cluster]
    return f"{name}: {', '.join(listed) or 'one machine without a scheduler'}"


def _count(listed: Sequence[Any], noun: str) -> str:
    return f"{len(listed)} {noun}{'' if len(listed) == 1 else 's'}"


def _make_types(evidence: MachineEvidence) -> list[_Type]:
    """Group the nodes into types; each has a name of its own."""
    groups: dict[tuple[Any, ...], list[ListedNode]] = {}
    for node in evidence.cluster.nodes if evidence.cluster else _own_nodes(evidence):
        groups.setdefault((node.cores, node.threads, node.reserved, node.gpus, node.gpu_types), []).append(node)
    ordered = sorted(groups.values(), key=lambda nodes: (not nodes[0].gpus, -len(nodes)))
    usual = Counter("gpu" if nodes[0].gpus else "cpu" for nodes in ordered)
    named: dict[str, _Type] = {}
    for nodes in ordered:
        kind = "gpu" if nodes[0].gpus else "cpu"
        places = [place for node in nodes for place in node.partitions]
        names = [kind] if usual[kind] == 1 else [*nodes[0].gpu_types, *dict.fromkeys(places), kind]
        names += [f"{kind}-{nodes[0].cores}", *(f"{kind}-{number}" for number in range(2, len(ordered) + 2))]
        chosen = next(free for free in (re.sub(r"\W", "-", name) for name in names) if free not in named)
        named[chosen] = _Type(chosen, tuple(nodes))
    return list(named.values())


def _own_nodes(evidence: MachineEvidence) -> Iterator[ListedNode]:
    """Yield this machine as a node, if it has no scheduler."""
    for survey in evidence.surveys[:1]:
        if survey.cores:
            yield ListedNode(survey.facts.name, survey.cores.cores, survey.cores.threads, (), len(survey.facts.gpus))


def _find_vendor(evidence: MachineEvidence, types: Sequence[_Type]) -> tuple[str, str]:
    for survey in evidence.surveys:
        for gpu in survey.facts.gpus:
            return gpu.vendor, f"the {gpu.vendor} driver of {survey.facts.name}"
    for kind in types:
        for listed in kind.first.gpu_types:
            for vendor, pattern in _VENDORS:
                if re.fullmatch(pattern, listed.lower()):
                    return vendor, f"{evidence.sources[0]}: GPUs of the type {listed}"
    return "", ""


def _binds(evidence: MachineEvidence, types: Sequence[_Type]) -> Iterator[Value | Unknown]:
    shared = {path: why for survey in evidence.surveys for path, why in shared_paths(survey, evidence.home)}
    if shared:
        listed = "; ".join(f"{path}: {why}" for path, why in shared.items())
        yield Value("binds.optional", sorted(shared), listed)
    elif evidence.surveys:
        names = ", ".join(survey.facts.name for survey in evidence.surveys)
        yield Unknown("binds.optional", f"no network file system besides those of the system on {names}")
    else:
        yield Unknown("binds.optional", _ASK)
    disks = {disk.path: disk for survey in evidence.surveys for disk in local_disks(survey)}
    for disk in disks.values():
        where = f"{disk.device} ({disk.kind}) at {disk.path}"
        yield Unknown("stage.nvme.directory", f"{where}: if jobs may fill it, set this and caches.node_local")


_ADD = "add --partition NAME, or run this command in a job"
_ASK = f"no compute node was asked: {_ADD}"


def _network(evidence: MachineEvidence, types: Sequence[_Type]) -> Iterator[Value | Unknown]:
    if not evidence.surveys:
        yield Unknown("network", _ASK)
        return
    survey = max(evidence.surveys, key=lambda survey: len(survey.facts.gpus))
    fast = [each for each in survey.interfaces if each.why]
    if survey.fabric:
        yield Value("network.fabric", survey.fabric, f"{survey.facts.name}: {survey.fabric_source}")
    else:
        yield Unknown("network.fabric", f"no Slingshot, EFA or InfiniBand on {survey.facts.name}")
    if fast:
        why = "; ".join(f"{each.name}: {each.why}" for each in fast)
        yield Value("network.interfaces", [each.name for each in fast], f"{survey.facts.name}: {why}; by number")
    else:
        names = ", ".join(each.name for each in survey.interfaces) or "none that is up"
        yield Unknown("network.interfaces", f"interfaces of {survey.facts.name}: {names}; none is known as fast")


def _nodes(evidence: MachineEvidence, types: Sequence[_Type]) -> Iterator[Value | Unknown]:
    cluster = evidence.cluster
    default = next((partition.name for partition in cluster.partitions if partition.default), "") if cluster else ""
    placed = dict(_place_partitions(types, cluster))
    usual = [kind.name for kind in types if default in placed.get(kind.name, ())]
    if usual and len(types) > 1:
        yield Value("nodes.default", usual[0], f"{evidence.sources[1]}: {default} is the default partition")
    for kind in types:
        yield from _describe_type(kind, evidence)
        partitions = placed.get(kind.name, ())
        if partitions:
            source = f"{evidence.sources[1]}, {evidence.sources[0]}"
            yield Value(f"nodes.{kind.name}.partitions", sorted(partitions, key=lambda name: name != default), source)
        others = sorted({place for node in kind.nodes for place in node.partitions} - set(partitions))
        if others:
            why = f"{', '.join(others)}: also partitions of other node types, which have most of their nodes"
            yield Unknown(f"nodes.{kind.name}.partitions", why)
        if cluster:
            yield from _memory(kind, partitions, cluster)


def _place_partitions(types: Sequence[_Type], cluster: Cluster | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield for each type its partitions; a partition belongs to the type with most of its nodes."""
    owners: dict[str, str] = {}
    for partition in cluster.partitions if cluster else ():
        counts = {kind.name: sum(partition.name in node.partitions for node in kind.nodes) for kind in types}
        owner = max(counts, key=lambda name: counts[name], default="")
        if owner and counts[owner]:
            owners[partition.name] = owner
    for kind in types:
        yield kind.name, tuple(name for name, owner in owners.items() if owner == kind.name)


def _describe_type(kind: _Type, evidence: MachineEvidence) -> Iterator[Value | Unknown]:
    table, node = f"nodes.{kind.name}", kind.first
    survey = next(
        (candidate for candidate in evidence.surveys if candidate.facts.name in {each.name for each in kind.nodes}),
        None,
    )
    source = f"{evidence.sources[0]}: {_count(kind.nodes, 'node')} such as {node.name}" if evidence.cluster else "lscpu"
    if node.cores:
        yield Value(f"{table}.cores", node.cores - len(node.reserved), source)
    if node.threads > 1:
        yield Value(f"{table}.threads_per_core", node.threads, source)
    if node.reserved:
        reserved = format_cpus(node.reserved)
        yield Value(f"{table}.reserved_cores", reserved, f"{evidence.sources[0]}: CPUSpecList, by core")
    if node.gpus:
        yield Value(f"{table}.gpus", node.gpus, source if evidence.cluster else "the GPU driver")
    seen = survey.cores if survey and evidence.cluster else None
    if survey and seen and (seen.cores, seen.threads) != (node.cores, node.threads):
        found = f"lscpu of {survey.facts.name} has {seen.cores} cores with {seen.threads} threads"
        yield Unknown(f"{table}.cores", f"{found}, the scheduler other numbers, which are used here")
    if node.gpus:
        yield _near_cores(table, node, survey)


def _near_cores(table: str, node: ListedNode, survey: NodeSurvey | None) -> Value | Unknown:
    """Return the cores near each GPU; cores near several GPUs are divided among them."""
    key = f"{table}.gpu_cores"
    if survey is None:
        return Unknown(key, f"no node of this type was asked: {_ADD}")
    host, gpus, cores = survey.facts.name, survey.facts.gpus, survey.cores
    if len(gpus) != node.gpus:
        return Unknown(key, f"the drivers of {host} know {len(gpus)} GPUs, expected {node.gpus}")
    if not cores or not cores.regular or cores.cores != node.cores:
        return Unknown(key, f"lscpu of {host} numbers the cores in another way than profiles do")
    near = [tuple(cpu for cpu in gpu.near if cpu < cores.cores and cpu not in node.reserved) for gpu in gpus]
    if not all(near):
        return Unknown(key, f"{host} does not say which cores are near each GPU")
    shares = []
    for number, mine in enumerate(near):
        alike = [other for other, theirs in enumerate(near) if theirs == mine]
        size = len(mine) // len(alike)
        first = alike.index(number) * size
        shares.append(mine[first : first + size])
    taken = Counter(core for share in shares for core in share)
    if not all(shares) or max(taken.values()) > 1:
        return Unknown(key, f"the cores near the GPUs of {host} overlap: {'; '.join(map(format_cpus, near))}")
    shared = ", divided where GPUs share them" if len(set(near)) < len(near) else ""
    return Value(key, [format_cpus(share) for share in shares], f"local_cpulist of the GPUs of {host}{shared}")


def _memory(kind: _Type, partitions: Sequence[str], cluster: Cluster) -> Iterator[Value | Unknown]:
    sizes = [node.memory for node in kind.nodes if node.memory > 1]  # 1 is Slurm's default: not configured
    limits = [partition.memory for partition in cluster.partitions if partition.name in partitions and partition.memory]
    if not sizes:
        yield Unknown(f"nodes.{kind.name}.memory_gib", "the scheduler does not list the memory of these nodes")
        return
    source = f"{cluster.commands[0]}: RealMemory without MemSpecLimit"
    source += f", the least of {min(sizes)} to {max(sizes)} MiB" if min(sizes) < max(sizes) else f", {min(sizes)} MiB"
    source += f"; MaxMemPerNode of a partition is {min(limits)} MiB" if limits and min(limits) < min(sizes) else ""
    yield Value(f"nodes.{kind.name}.memory_gib", min([*sizes, *limits]) // 1024, source)


def _launcher(evidence: MachineEvidence, types: Sequence[_Type]) -> Iterator[Value | Unknown]:
    if not evidence.cluster:
        yield Unknown("job", "no scheduler answers here, so nothing about jobs is set")
        return
    if evidence.mpi:
        yield Value("launcher.mpi", list(evidence.mpi), "the scheduler's list of MPI types")
        if evidence.cluster.mpi in evidence.mpi:
            yield Value("launcher.mpi_default", evidence.cluster.mpi, f"{evidence.sources[2]}: MpiDefault")
    else:
        yield Unknown("launcher.mpi", "the scheduler lists no types of MPI")


def _job(evidence: MachineEvidence, types: Sequence[_Type]) -> Iterator[Value | Unknown]:
    cluster = evidence.cluster
    if not cluster:
        return
    exclusive = [partition.name for partition in cluster.partitions if partition.exclusive]
    if exclusive:
        yield Value("job.exclusive", exclusive, f"{evidence.sources[1]}: OverSubscribe=EXCLUSIVE")
    if cluster.release:
        yield Value("job.slurm", cluster.release, f"{evidence.sources[2]}")
    path, source = evidence.module_init
    if path:
        yield Value("job.module_init", path, source)
    yield Unknown("job.required", "options that jobs must have, e.g. account, cannot be found out: ask the site")
    features = sorted({feature for kind in types for node in kind.nodes for feature in node.features})
    if features:
        why = f"features of nodes, if jobs must request one with --constraint: {', '.join(features[:20])}"
        yield Unknown("job.lines", why)
