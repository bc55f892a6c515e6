"""The command `hpcmod check`: look at all nodes of a job before it starts, or prove which network a container uses."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from hpcmod.catalogue import complete_container, find_ready, look_around
from hpcmod.compat import find_image_mpi
from hpcmod.core.cli.findings import print_findings
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import json_option, print_json, print_table, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.finding import FAIL, Finding
from hpcmod.core.values.json_form import SPLICED
from hpcmod.jobs import (
    DryRun,
    PlaceFlags,
    find_allocation,
    make_allocation,
    mpi_option,
    place_options,
    print_dry_run,
    run_again,
)
from hpcmod.jobs.values.allocation import Allocation
from hpcmod.jobs.values.inside import InnerStep, fit_allocation, make_inner_step
from hpcmod.jobs.values.request import JobContainer, JobRequest, Ranks
from hpcmod.jobs.values.slurm import step_in_job
from hpcmod.machine import find_machine
from hpcmod.machine.values.facts import NodeFacts, format_cpus
from hpcmod.machine.values.site import BY_TASKS, Site
from hpcmod.modules import Installed, read_record, site_of
from hpcmod.modules.values.install_record import NO_RECORD, InstalledImage
from hpcmod.modules.values.question import make_question
from hpcmod.runs.cli.network import ProvedNetwork, prove_network
from hpcmod.runs.network.program import PROGRAM
from hpcmod.runs.nodes.report import NodeReport, check_nodes, find_ranks, make_step_on_nodes
from hpcmod.runs.values.nodes.affinity import RankPlace
from hpcmod.runs.values.nodes.verdicts import ALL, levels_of

_MINUTES = 5  # time limit of an allocation for this command; with --digest a large image takes longer
_MINUTES_FOR_IMAGE = 15
_MINUTES_FOR_NETWORK = 10
_SAID = 10  # messages of Slurm that are shown


@dataclass(frozen=True)
class CheckFlags(PlaceFlags):
    """Arguments and options of `hpcmod check`."""

    nodes: int | None
    """None: all of the current allocation, or one in a new one."""
    container: str
    digest: bool
    affinity: bool
    network: bool
    ranks_per_node: int
    """0: one per GPU."""
    mpi: str
    timeout: int
    dry_run: bool
    as_json: bool


@dataclass(frozen=True)
class CheckedNode:
    """What a node says about itself."""

    facts: NodeFacts = field(metadata=SPLICED)
    level: str
    """ok, warn or fail: the worst finding about it."""


@dataclass(frozen=True)
class CheckedNodes:
    """Whether the nodes of a job can be used."""

    site: str
    """Name of the site profile."""
    nodes: tuple[CheckedNode, ...]
    missing: tuple[str, ...]
    """Nodes that did not answer."""
    ranks: tuple[RankPlace, ...]
    """Where each rank runs, with --affinity."""
    findings: tuple[Finding, ...]


@click.command("check")
@click.argument("container", metavar="[NAME[/VERSION]]", required=False, default="", shell_complete=complete_container)
@click.option("--digest", is_flag=True, help="Verify the sha256 of the image on every node, however large it is.")
@click.option("--affinity", is_flag=True, help="Report cores, GPU and network interface of each rank.")
@click.option("--network", is_flag=True, help="Prove that the container uses the fast network, instead.")
@click.option("--ranks-per-node", default=0, help="Ranks per node for these two (default: one per GPU).")
@mpi_option
@click.option(
    "--timeout", type=click.IntRange(5, 3600), default=60, help="Seconds that --network waits for a rank (default: 60)."
)
@click.option("--dry-run", is_flag=True, help="Print the commands that start the check; run nothing.")
@json_option(CheckedNodes, ProvedNetwork, DryRun)
@place_options
@click.option(
    "-N",
    "--nodes",
    type=click.IntRange(min=1),
    default=None,
    help="Number of nodes (default: all of this allocation, else 1; 2 with --network).",
)
@with_flags(CheckFlags)
def check_verb(flags: CheckFlags) -> None:
    """Check the nodes of a job before it uses them.

    Compares every node with the site profile and with the other nodes: cores, memory, free space, network interfaces,
    bind paths, the image of a container, GPUs, drivers and clock. Inside an allocation it checks that allocation;
    outside, it requests one first. Exits with 1 if a node should not be used.

    With --network: runs a small all-reduce over NCCL or RCCL, gloo and MPI, as far as the image has them, through the
    run script of your jobs; outside an allocation on two nodes. Reads the libraries' own logs, and compares the network
    that they used with the site profile. Exits with 1 if the all-reduce fails, or a slower network is used.

    \b
    Examples:
      hpcmod check                                  # in an allocation, with the loaded module
      hpcmod check PyTorch -N 4 -A project_465000001 -p standard-g
      hpcmod check PyTorch --affinity --ranks-per-node 8
      hpcmod check PyTorch --network -N 2 -A project_465000001 -p standard-g
      hpcmod check PyTorch --json | jq -r '.findings[] | select(.level == "fail") | .subject'
    """
    site = find_machine(None, os.environ, flag=flags.site).site
    if flags.network and (flags.digest or flags.affinity):
        raise click.UsageError("--network is another check: leave out --digest and --affinity")
    if flags.network and not flags.container:
        raise click.UsageError("name the container to test: hpcmod check NAME --network")
    container = find_ready(look_around(flags.site), flags.container) if flags.container else None
    site = site_of(container.record if container else NO_RECORD, site, os.environ, asked=flags.site, tell=tell)
    allocation = find_allocation(site)
    if allocation is None:
        _run_in_allocation(flags, site)
        return
    allocation = _choose_nodes(allocation, flags.nodes)
    if flags.network and container:
        if allocation.nodes == 1:
            tell("this allocation has one node, so the network between nodes is not tested")
        mpi = find_image_mpi(container, site, os.environ)
        start = _start_ranks(flags, site, allocation, ("-c", PROGRAM, str(flags.timeout)), image_mpi=mpi)
        command = (*start.step.command, str(container.program), "exec", "--", *start.step.program)
        if not flags.dry_run:
            prove_network(command, site, module=container.module, ranks=start.ranks, as_json=flags.as_json)
    else:
        command = make_step_on_nodes(allocation, whole=flags.digest)
        if not flags.dry_run:
            with terminate_cleanly():
                _check(flags, site, allocation, container)
    print_dry_run([[word if word != PROGRAM else "PROGRAM" for word in command]], as_json=flags.as_json)


def _run_in_allocation(flags: CheckFlags, site: Site) -> None:
    minutes, nodes = _MINUTES_FOR_IMAGE if flags.digest else _MINUTES, flags.nodes
    if flags.network:
        minutes, nodes = _MINUTES_FOR_NETWORK, nodes or 2
    ranks = flags.ranks_per_node if flags.affinity or flags.network else 0
    command = make_allocation(flags, site, nodes=nodes or 1, minutes=minutes, ranks_per_node=ranks)
    if flags.dry_run:
        print_dry_run([command], as_json=flags.as_json)
        return
    with terminate_cleanly():
        sys.exit(run_again(command))


def _choose_nodes(allocation: Allocation, nodes: int | None) -> Allocation:
    if nodes is None:
        return allocation
    if nodes > allocation.nodes:
        raise BadInputError(
            f"--nodes {nodes}: this allocation has {allocation.nodes}", "Leave out --nodes to check all of them."
        )
    return allocation._replace(nodes=nodes)


def _start_ranks(
    flags: CheckFlags, site: Site, allocation: Allocation, program: tuple[str, ...], *, image_mpi: str = ""
) -> InnerStep:
    """Return how ranks are started, as `hpcmod launch` starts them."""
    request = JobRequest(
        program=program,
        container=JobContainer(mpi=image_mpi),
        node_type=flags.node_type,
        ranks=Ranks(per_node=flags.ranks_per_node, gpus=flags.gpus, launcher=BY_TASKS, mpi=flags.mpi),
    )
    inner = make_inner_step(fit_allocation(request, allocation, site), allocation, site)
    return inner._replace(step=replace(inner.step, command=step_in_job(inner.step.command, tasks=inner.ranks)))


def _check(flags: CheckFlags, site: Site, allocation: Allocation, found: Installed | None) -> None:
    image = found.image if found else _find_loaded(os.environ)
    report = check_nodes(allocation, _make_question(flags, site, image), os.environ, site=site.name)
    for message in report.messages[:_SAID]:
        tell(message)
    ranks, wrong = _find_ranks(flags, site, allocation) if flags.affinity else ((), [])
    findings = [*report.findings, *_judge_drivers(report, site, image.path), *wrong]
    if flags.as_json:
        levels = levels_of(report.nodes, findings)
        nodes = tuple(CheckedNode(node, levels[node.name]) for node in report.nodes)
        print_json(CheckedNodes(site.name, nodes, report.missing, ranks, tuple(findings)))
    else:
        _print_report(report, ranks, findings)
    sys.exit(1 if any(finding.level == FAIL for finding in findings) else 0)


def _make_question(flags: CheckFlags, site: Site, image: InstalledImage) -> dict[str, Any]:
    """Return what to ask each node."""
    kinds = [node for node in site.nodes.types if node.name == flags.node_type] or site.nodes.types
    question = make_question(site, kinds, site.all_binds)
    if image.path:
        question["image"] = {
            "path": image.path,
            "size": image.size,
            "sha256": image.sha256,
            "whole": flags.digest,
        }
    return {**question, "tools": True}


def _find_loaded(environ: Mapping[str, str]) -> InstalledImage:
    """Return the image of the loaded container, as far as known: $SIF may be a copy that was staged."""
    root = environ.get("CONTAINERROOT")
    known = read_record(Path(root)).image if root else InstalledImage()
    return replace(known, path=environ.get("SIF", ""))


def _judge_drivers(report: NodeReport, site: Site, image: str) -> list[Finding]:
    from hpcmod.runs.nodes.drivers import judge_drivers  # nodes without GPUs do not need it

    return judge_drivers(Path(image), site, report.nodes) if image else []


def _find_ranks(flags: CheckFlags, site: Site, allocation: Allocation) -> tuple[tuple[RankPlace, ...], list[Finding]]:
    """Start ranks as `hpcmod launch` does, and return where they run."""
    start = _start_ranks(flags, site, allocation, ("python",))
    return find_ranks(
        start.step.command,
        node=start.layout.node,
        ranks=start.layout.tasks,
        interfaces=site.network.interfaces,
        environ=os.environ,
    )


def _print_report(report: NodeReport, ranks: Sequence[RankPlace], findings: Sequence[Finding]) -> None:
    levels = levels_of(report.nodes, findings)
    headers = ("NODE", "STATE", "CPUS", "MEMORY", "GPUS", "DRIVER", "INTERFACES", "CLOCK")
    print_table(headers, [_node_row(node, levels[node.name]) for node in report.nodes])
    if ranks:
        print_table(("RANK", "NODE", "LOCAL", "GPU", "INTERFACE", "NUMA", "CPUS"), list(map(_rank_row, ranks)))
    print_findings(findings)
    bad = sorted({finding.subject for finding in findings if finding.level == FAIL} - {ALL})
    if bad:
        tell(f"do not use {len(bad)} of {len(report.nodes) + len(report.missing)} nodes: --exclude={','.join(bad)}")


def _node_row(node: NodeFacts, level: str) -> tuple[str, ...]:
    allowed = len(node.threads.allowed)
    drivers = [f"{name} {version}" for name, version in node.drivers if version and name != "kernel"]
    up = [name for name, state in node.interfaces if state != "down"]
    return (
        node.name,
        level,
        str(allowed or "?") if allowed == node.threads.cpus else f"{allowed} of {node.threads.cpus}",
        f"{node.memory / (1 << 30):.0f} GiB",
        str(len(node.gpus)),
        ", ".join(drivers) or "-",
        ",".join(up) or "-",
        f"{node.times.skew:+.1f} s",
    )


def _rank_row(place: RankPlace) -> tuple[str, ...]:
    return (
        str(place.rank),
        place.host,
        str(place.local),
        "-" if place.gpu is None else str(place.gpu),
        place.interface or "-",
        ",".join(map(str, place.numa)) or "-",
        format_cpus(place.cpus) if place.bound else f"{format_cpus(place.cpus)} (not bound)",
    )
