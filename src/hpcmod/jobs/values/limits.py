"""Check a job against the limits of its partition and quality of service, before it waits in the queue for nothing."""

from __future__ import annotations

import re

from hpcmod.core.errors import BadInputError
from hpcmod.jobs.values.layout import Layout, choose_partition
from hpcmod.jobs.values.request import JobRequest
from hpcmod.jobs.values.slurm import VARIABLES, value_of
from hpcmod.machine.values.site import Limits, Site

_LETTERS = {"account": "A", "qos": "q", "time": "t", "partition": "p", "constraint": "C"}


def check_limits(request: JobRequest, site: Site, layout: Layout) -> None:
    """Check that a job has the options that it needs, and is not larger or longer than is accepted.

    Its quality of service decides, or its partition if that is not known. Raises BadInputError if not; all missing
    options are listed together.
    """
    given = {**dict(request.options), "partition": choose_partition(request, site, layout.node)}
    given.update({name: value for name, letter in _LETTERS.items() if (value := value_of(request.more, name, letter))})
    known = {limits.name: limits for limits in site.job.limits}
    limits = known.get(given.get("qos", "")) or known.get(given["partition"]) or Limits("")
    needed = dict.fromkeys((*site.job.required, *limits.required))
    missing = [name for name in needed if not given.get(name)]
    if missing:
        flags = " ".join(f"--{name} {name.upper()}" for name in missing)
        variables = " ".join(f"{VARIABLES[name]}=..." for name in missing)
        raise BadInputError(
            f"every job on {site.name} needs {' and '.join(f'--{name}' for name in missing)}",
            f"Add {flags}, or export {variables} once.",
        )
    hours = read_hours(given.get("time", ""))
    excess = _find_excess(limits, request.nodes, hours, layout)
    if excess:
        others = [
            name
            for name in layout.node.partitions
            if name != given["partition"]
            and not _find_excess(known.get(name, Limits(name)), request.nodes, hours, layout)
        ]
        raise BadInputError(
            f"{limits.name} on {site.name} accepts {excess}",
            f"Ask for less{', or for another partition: -p ' + others[0] if others else ''}.",
        )


def _find_excess(limits: Limits, nodes: int, hours: float, layout: Layout) -> str:
    """Return which limit a job exceeds, and what it asks for; empty if it exceeds none."""
    cores = nodes * layout.tasks * layout.cpus
    longest = limits.hours_of(nodes)
    if 0 < limits.nodes < nodes:
        return f"jobs of at most {limits.nodes} nodes, and this one has {nodes}"
    if 0 < limits.cores < cores:
        return f"jobs of at most {limits.cores} cores, and this one has {cores}"
    if 0 < longest < hours:
        kind = f"jobs on {nodes} node{'s' * (nodes > 1)}" if len(limits.hours) > 1 else "jobs"
        return f"{kind} of at most {longest:g} hours, and this one asks for {hours:g}"
    return ""


def read_hours(time: str) -> float:
    """Return a time limit of Slurm in hours; 0 if it has none, or another form."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", time)
    if not match:
        return 0
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[1]:  # days-hours[:minutes[:seconds]]
        return days * 24 + first + second / 60 + third / 3600
    if match[4]:  # hours:minutes:seconds
        return first + second / 60 + third / 3600
    return first / 60 + second / 3600  # minutes[:seconds]
