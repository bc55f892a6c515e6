"""`hpcmod check --network`: run an all-reduce on the ranks of a step, and compare the network used with the profile."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from hpcmod.catalogue import find_catalogues
from hpcmod.core.cli.findings import print_findings
from hpcmod.core.cli.output import print_json, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.values.finding import FAIL, UNKNOWN, Finding
from hpcmod.jobs.values.step import PYTHON
from hpcmod.machine.values.site import Site
from hpcmod.runs.known_endings import read_known_endings
from hpcmod.runs.network.run import Run, run_allreduce
from hpcmod.runs.values.logs.allreduce import RankResult, judge_results
from hpcmod.runs.values.logs.network import describe_network, judge_network

_SAID = 15  # last lines of the ranks' output that are shown if the all-reduce fails


@dataclass(frozen=True)
class ProvedNetwork:
    """The network that a container uses, from an all-reduce and the logs of its libraries."""

    site: str
    """Name of the site profile."""
    fabric: str
    """The network that the profile names; empty: none."""
    network: str
    """The network of NCCL or RCCL, in one line; empty if the logs do not name it."""
    facts: Mapping[str, Mapping[str, int]]
    """Of the logs, by field and value: the number of lines."""
    lines: int
    """Lines of the libraries."""
    unread: int
    """Of these, the lines that no rule knows."""
    messages: tuple[str, ...]
    """Last lines of other output."""
    ranks: tuple[RankResult, ...]
    findings: tuple[Finding, ...]


def prove_network(command: Sequence[str], site: Site, *, module: str, ranks: int, as_json: bool) -> NoReturn:
    """Run the command that starts all ranks, print which network they used, and exit: with 1 if it is not the fast one.

    `module`: Name of the container.
    `ranks`: Number of ranks that the command starts.
    """
    endings, faults = read_known_endings(find_catalogues(site, os.environ, tell=tell), module=module)
    for fault in faults:
        tell(fault)
    with terminate_cleanly():
        run = run_allreduce(command, endings, environ=os.environ)
    findings = list(_judge(run, site, ranks))
    if as_json:
        reading = run.reading
        proved = ProvedNetwork(
            site=site.name,
            fabric=site.network.fabric,
            network=describe_network(reading),
            facts=reading.facts,
            lines=reading.lines,
            unread=reading.unread,
            messages=tuple(run.said),
            ranks=tuple(result for _, result in sorted(run.results.ranks.items())),
            findings=tuple(findings),
        )
        print_json(proved)
    else:
        for line in run.said[-_SAID:] if run.status else ():
            tell(line)
        print_findings(findings)
    sys.exit(1 if any(finding.level == FAIL for finding in findings) else 0)


def _judge(run: Run, site: Site, ranks: int) -> Iterator[Finding]:
    scripts = [line for line in run.said if line.startswith(f"{PYTHON}:")]
    said = (*scripts, *run.said, "")[0]
    results = list(judge_results(run.results, ranks=ranks, interfaces=site.network.interfaces, said=said))
    yield from results
    worked = not any(result.level == FAIL for result in results)
    with_gpus = bool(run.results.of("nccl"))
    if not with_gpus and site.network.fabric and run.results.ranks:
        found = "no rank saw a GPU, so NCCL or RCCL was not tested"
        yield Finding(UNKNOWN, "network", found, "Ask for GPUs, and compare the image with the machine: hpcmod compat.")
    for finding in judge_network(run.reading, site.network, worked=worked):
        if with_gpus or finding.rule != "network":
            yield finding
