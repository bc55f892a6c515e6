"""Steps in the current allocation: the request that fits it, and how its ranks are placed."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from hpcmod.jobs.values.allocation import Allocation
from hpcmod.jobs.values.layout import Layout, make_layout
from hpcmod.jobs.values.request import JobRequest
from hpcmod.jobs.values.step import Step, make_step
from hpcmod.machine.values.site import Site


class InnerStep(NamedTuple):
    """A step, and how it is placed in the allocation."""

    layout: Layout
    step: Step
    ranks: int
    """In total."""


def fit_allocation(request: JobRequest, allocation: Allocation, site: Site) -> JobRequest:
    """Return a request for the nodes, GPUs and cores of an allocation; without GPUs, also for its number of tasks."""
    asked, partition = request.ranks, allocation.partition
    has_gpus = any(node.gpus for node in site.nodes.types)
    gpus = asked.gpus if asked.gpus >= 0 else allocation.gpus or (-1 if has_gpus else 0)
    tasks, left = divmod(allocation.tasks, allocation.nodes)
    per_node = asked.per_node or (tasks if tasks > 1 and not left and not gpus else 0)
    cpus = -1 if partition in site.job.exclusive else 0
    return replace(
        request,
        nodes=allocation.nodes,
        ranks=asked._replace(per_node=per_node, gpus=gpus, cpus=cpus),
        options=(("partition", partition),) if partition else (),
    )


def make_inner_step(request: JobRequest, allocation: Allocation, site: Site) -> InnerStep:
    """Return the step of a request that fits an allocation.

    Raises BadInputError if the request does not fit the machine.
    """
    layout = make_layout(request, site)
    if allocation.cpus:  # of each node; the number of tasks may differ from the allocation's
        layout = layout._replace(cpus=allocation.cpus // layout.tasks)
    return InnerStep(layout, make_step(request, site, layout), request.nodes * layout.tasks)
