"""Placement of a job: node type, launcher, and the tasks, GPUs and CPUs of each node."""

from __future__ import annotations

from typing import NamedTuple

from hpcmod.core.errors import BadInputError
from hpcmod.jobs.values.request import JobRequest, is_command
from hpcmod.machine.values.site import BY_TASKS, LAUNCHERS, RAY, NodeType, Site


class Layout(NamedTuple):
    """Placement of tasks on nodes."""

    node: NodeType
    launcher: str
    gpus: int
    tasks: int
    """Tasks per node."""
    cpus: int
    """CPUs per task; 0: not known."""
    memory_gib: int
    """Memory per node; 0: not known."""
    whole: bool
    """Whether the job gets all GPUs and all cores of its nodes."""

    @property
    def by_tasks(self) -> bool:
        """Return whether each rank is a task of srun; otherwise the launcher starts the ranks of a node."""
        return self.launcher == BY_TASKS


def make_layout(request: JobRequest, site: Site) -> Layout:
    """Return the placement of a job.

    Raises BadInputError if the machine lacks such nodes or has too few GPUs per node, or the launcher must not be used.
    """
    node = _find_node(request, site)
    gpus = _count_gpus(request, site, node)
    launcher = _choose_launcher(request, site, gpus)
    tasks = 1 if launcher != BY_TASKS else request.ranks.per_node or gpus or 1
    cpus = _count_cpus(node, gpus, tasks, site.launcher.cpus_per_gpu) if request.ranks.cpus < 0 else request.ranks.cpus
    whole = gpus == node.gpus and (
        choose_partition(request, site, node) in site.job.exclusive
        or "--exclusive" in (*site.job.lines, *request.more)
        or 0 < node.cores <= cpus * tasks  # also on a shared node: this job has all cores that jobs may use
    )
    memory_gib = node.memory_gib * gpus // node.gpus if node.gpus else node.memory_gib
    return Layout(node, launcher, gpus, tasks, cpus, memory_gib, whole)


def _count_gpus(request: JobRequest, site: Site, node: NodeType) -> int:
    """Return the GPUs per node of a job."""
    gpus = node.gpus if request.ranks.gpus < 0 else request.ranks.gpus
    others = [f"--node-type {each.name}" for each in site.nodes.types if each.gpus]
    if request.ranks.gpus < 0 and site.gpu.vendor and not others and not request.node_type:
        raise BadInputError(
            f"the profile of {site.name} does not say how many GPUs a node has",
            "Give the number of GPUs per node: --gpus 4 (--gpus 0 for none), or write a profile with [nodes].",
        )
    if gpus > node.gpus and others:
        cure = "Ask for more nodes instead: -N." if node.gpus else f"Ask for {others[0]}."
        raise BadInputError(f"the job asks for {gpus} GPUs per node; nodes of type {node.name} have {node.gpus}", cure)
    if node.gpus and not gpus:
        without = next((f"--node-type {each.name}" for each in site.nodes.types if not each.gpus), "--gpus 1")
        raise BadInputError(f"nodes of type {node.name} have GPUs, but the job asks for none", f"Ask for {without}.")
    return gpus


def _find_node(request: JobRequest, site: Site) -> NodeType:
    """Return the node type of a request: the one it names, that of its partition or qos, or the site's default."""
    if request.node_type:
        named = [node for node in site.nodes.types if node.name == request.node_type]
        if not named:
            known = ", ".join(node.name for node in site.nodes.types) or "none"
            raise BadInputError(f"{site.name} has no node type {request.node_type!r}", f"Node types: {known}.")
        return named[0]
    fitting = [node for node in site.nodes.types if request.option("partition") in node.partitions]
    fitting += [node for node in site.nodes.types if node.has_qos(request.option("qos"))]
    return (*fitting, site.nodes.usual)[0]


def _choose_launcher(request: JobRequest, site: Site, gpus: int) -> str:
    by_tasks = is_command(request.program) or not request.container.has_bash or not (gpus or request.ranks.per_node)
    launcher = request.ranks.launcher or (BY_TASKS if by_tasks else site.launcher.kind)
    reason = dict(site.launcher.refused).get(launcher)
    if reason:
        others = [name for name in LAUNCHERS if name not in dict(site.launcher.refused)]
        raise BadInputError(f"{launcher} must not be used: {reason}", f"Use one of {', '.join(others)}.")
    if launcher == RAY and request.ranks.per_node:
        raise BadInputError(
            f"--ranks-per-node counts ranks, and {RAY} starts one program, whose tasks ask for CPUs and GPUs",
            "Leave out --ranks-per-node.",
        )
    if launcher not in (RAY, BY_TASKS) and is_command(request.program):
        raise BadInputError(
            f"{launcher} starts Python programs, and {request.program[0]} is not a Python program",
            "Leave out --launcher.",
        )
    return launcher


def _count_cpus(node: NodeType, gpus: int, tasks: int, ratio: int) -> int:
    """Return the CPUs per task: by the site's rule, else the cores near its GPUs, else an equal share."""
    if not tasks:
        return 0
    if ratio and gpus:
        return ratio * gpus // tasks
    if node.gpu_cores and gpus:
        return sum(len(cores) for cores in node.gpu_cores[:gpus]) // tasks
    return node.cores * (gpus or 1) // (node.gpus or 1) // tasks if gpus or not node.gpus else 0


def choose_partition(request: JobRequest, site: Site, node: NodeType) -> str:
    """Return the partition: the requested one, else the first with such nodes; empty if none is known.

    For part of a node, prefer a shared partition: elsewhere the full node is charged.
    """
    shared = [name for name in node.partitions if name not in site.job.exclusive and 0 < request.ranks.gpus < node.gpus]
    return request.option("partition") or next(iter([*shared, *node.partitions]), "")
