"""The form of an app in Open OnDemand: which container, on which nodes of the machine, for how long."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hpcmod.jobs.values.job import make_job
from hpcmod.jobs.values.layout import make_layout
from hpcmod.jobs.values.request import JobRequest, Ranks
from hpcmod.machine.values.site import Limits, NodeType, Site

_FIELDS = ("account", "time", "partition")
"""Options of sbatch that have fields of their own in the form."""

_OF_PORTAL = ("job-name", "output", "account", "time")
"""Options of sbatch that Open OnDemand sets."""

_EXAMPLES = {"time": "01:00:00"}
"""Values with which required options of sbatch are checked; for others: their name."""


class NodeChoice(NamedTuple):
    """Nodes that a job can request: the whole of one node, or a share."""

    label: str
    options: str
    """Options of sbatch, as words of a shell."""
    hours: int
    """Longest time limit in hours; 0: not known."""


def list_choices(site: Site) -> Iterator[NodeChoice]:
    """Yield what jobs on one node of a machine can request, by partition, those first that share their nodes.

    Raises LackingError if the machine has another scheduler than Slurm.
    """
    limits = {limits.name: limits for limits in site.job.limits}
    for node in site.nodes.usual_first or (NodeType("node"),):
        for partition in sorted(node.partitions or ("",), key=lambda name: name in site.job.exclusive):
            rules = limits.get(partition, Limits(partition))
            if rules.hours_of(1) and rules.hours_of(1) < 1:
                continue  # the form counts in hours
            for ranks in _list_shares(node, is_whole=partition in site.job.exclusive):
                yield _make_choice(site, node, rules, ranks)


def _list_shares(node: NodeType, *, is_whole: bool) -> Iterator[Ranks]:
    """Yield the shares of a node: by GPUs 1, 2, 4, ..., else an eighth of the cores; and all."""
    if node.gpus and not is_whole:
        yield from (Ranks(1, 2**power) for power in range(node.gpus.bit_length()) if 2**power < node.gpus)
    elif node.cores >= 16 and not is_whole:
        yield Ranks(1, 0, node.cores // 8)
    yield Ranks(1, node.gpus)


def _make_choice(site: Site, node: NodeType, rules: Limits, ranks: Ranks) -> NodeChoice:
    required = {name: _EXAMPLES.get(name, name) for name in (*site.job.required, *rules.required)}
    given = {**required, **({"partition": rules.name} if rules.name else {})}
    request = JobRequest(
        ("true",), node_type=node.name if site.nodes.types else "", ranks=ranks, options=(*given.items(),)
    )
    layout = make_layout(request, site)
    dropped = {*_OF_PORTAL, *required, *(["mem"] if ranks.cpus > 0 else [])} - {"partition"}
    options = (directive.option for directive in make_job(request, site).directives)
    words = (option for option in options if option[2:].partition("=")[0] not in dropped)
    counts = ((layout.gpus, "GPU"), (layout.cpus, "core"))
    size = ", ".join(f"{count} {unit}{'s' * (count > 1)}" for count, unit in counts if count)
    label = ": ".join(filter(None, (rules.name or node.name, size)))
    return NodeChoice(label, " ".join(words), int(rules.hours_of(1)))


def make_form(containers: Sequence[tuple[str, str]], cluster: str, site: Site) -> Mapping[str, Any]:
    """Return the form of an app, as Open OnDemand reads it from form.yml.

    `containers`: Labels and programs of the containers, of which the user chooses one.
    `cluster`: Name of the cluster in Open OnDemand.
    """
    choices = list(list_choices(site))
    longest = max(choice.hours for choice in choices)
    required = dict.fromkeys(itertools.chain(site.job.required, *(limits.required for limits in site.job.limits)))
    attributes: dict[str, Any] = {
        "container": {"widget": "select", "label": "Container", "options": [list(each) for each in containers]},
        "node": {
            "widget": "select",
            "label": "Nodes",
            "options": [
                [choice.label, choice.options, {"data-max-bc-num-hours": choice.hours or longest} if longest else {}]
                for choice in choices
            ],
        },
        "bc_num_hours": {"value": 1, **({"max": longest} if longest else {})},
        "bc_account": {"required": "account" in required},
        **({} if any(node.partitions for node in site.nodes.types) else {"bc_queue": {"label": "Partition"}}),
        **{
            f"sbatch_{name}": {"label": name.capitalize(), "required": name in site.job.required}
            for name in required
            if name not in _FIELDS
        },
        "directory": {"label": "Directory", "help": "The directory that JupyterLab shows; empty: your home directory."},
        "commands": "\n".join(site.job.command),
    }
    return {"cluster": cluster, "form": list(attributes), "attributes": attributes}
