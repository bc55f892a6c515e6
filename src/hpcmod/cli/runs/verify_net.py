"""The command `hpcmod verify-net`: prove on two nodes which network a container uses, or read it from logs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from hpcmod import machine
from hpcmod.check.fit import find_image_mpi
from hpcmod.check.network.files import read_logs
from hpcmod.check.network.program import PROGRAM
from hpcmod.check.network.run import Run, run_allreduce
from hpcmod.cli.containers import complete_container, find_ready, look_around
from hpcmod.cli.findings import finding_values, print_findings
from hpcmod.cli.flags import with_flags
from hpcmod.cli.jobs.run_options import mpi_option
from hpcmod.cli.output import print_data, print_json, tell
from hpcmod.cli.runs.allocation import (
    AllocationFlags,
    find_allocation,
    make_allocation,
    place_options,
    run_again,
)
from hpcmod.cli.signals import terminate_cleanly
from hpcmod.errors import BadInputError
from hpcmod.install.installed import Installed
from hpcmod.model.finding import FAIL, UNKNOWN, Finding
from hpcmod.model.jobs.allocation import Allocation
from hpcmod.model.jobs.layout import make_layout
from hpcmod.model.jobs.request import JobRequest
from hpcmod.model.jobs.slurm import step_in_job
from hpcmod.model.jobs.step import PYTHON, make_step
from hpcmod.model.logs.allreduce import judge_results
from hpcmod.model.logs.network import describe_network, expected_network, judge_network
from hpcmod.model.logs.reading import Reading
from hpcmod.model.site import BY_TASKS, Site
from hpcmod.render.quote import sh_word

_NODES = 2
_MINUTES = 10  # time limit of an allocation for this command
_SAID = 15  # last lines of the ranks' output that are shown if the all-reduce fails


@dataclass(frozen=True)
class VerifyFlags(AllocationFlags):
    """Arguments and options of `hpcmod verify-net`."""

    words: tuple[str, ...]
    """A container; with --read: logs."""
    read: bool
    ranks_per_node: int
    """0: one per GPU."""
    mpi: str
    timeout: int
    dry_run: bool
    as_json: bool


@click.command("verify-net")
@click.argument("words", nargs=-1, required=True, metavar="NAME[/VERSION] | LOG...", shell_complete=complete_container)
@click.option("--read", is_flag=True, help="Read logs of an earlier run: files, or directories of --debug.")
@click.option("--ranks-per-node", default=0, help="Ranks per node (default: one per GPU).")
@mpi_option
@click.option("--timeout", type=click.IntRange(5, 3600), default=60, help="Seconds to wait for a rank (default: 60).")
@click.option("--dry-run", is_flag=True, help="Print the command that starts the ranks; run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@place_options
@click.option(
    "-N", "--nodes", type=click.IntRange(min=1), help="Number of nodes (default: all of this allocation, else 2)."
)
@with_flags(VerifyFlags)
def verify_net_verb(flags: VerifyFlags) -> None:
    """Prove that a container uses the fast network.

    Runs a small all-reduce on two nodes over NCCL or RCCL, gloo and MPI, as far as the image has them, through the run
    script of your jobs. Reads the libraries' own logs, and compares the network that they used with the site profile.
    Exits with 1 if the all-reduce fails, or a slower network than the machine's is used.

    Inside an allocation it uses that allocation; outside, it requests one first.

    \b
    Examples:
      hpcmod verify-net PyTorch -A project_465000001 -p standard-g
      hpcmod verify-net PyTorch --ranks-per-node 1                      # in an allocation
      hpcmod verify-net --read hpcmod-debug-4711
      hpcmod verify-net --read train-4711.out --json
    """
    profile = machine.load_site(flags.site, {} if flags.site else os.environ)
    if flags.read:
        reading, notes = read_logs([Path(word) for word in flags.words])
        for note in notes:
            tell(note)
        _finish(flags, profile, Run(reading), list(judge_network(reading, expected_network(profile))))
    if len(flags.words) != 1:
        raise BadInputError(f"{len(flags.words)} containers given", "Name one container, or read logs with --read.")
    found = find_ready(look_around(flags.site), flags.words[0])
    allocation = find_allocation(profile)
    if allocation is None:
        _run_in_allocation(replace(flags, nodes=flags.nodes or _NODES), profile)
    else:
        _verify(flags, profile, found, _choose_nodes(allocation, flags.nodes))


def _run_in_allocation(flags: VerifyFlags, site: Site) -> None:
    command = make_allocation(flags, site, minutes=_MINUTES, ranks_per_node=flags.ranks_per_node)
    if flags.dry_run:
        _print_command(command, as_json=flags.as_json)
        return
    with terminate_cleanly():
        sys.exit(run_again(command))


def _print_command(command: Sequence[str], *, as_json: bool) -> None:
    line = " ".join(sh_word(word if word != PROGRAM else "PROGRAM") for word in command)
    print_json(dry_run=True, command=line) if as_json else print_data(line)


def _choose_nodes(allocation: Allocation, nodes: int | None) -> Allocation:
    if nodes is not None and nodes > allocation.nodes:
        raise BadInputError(f"--nodes {nodes}: this allocation has {allocation.nodes}", "Get a larger allocation.")
    if allocation.nodes == 1:
        tell("this allocation has one node, so the network between nodes is not tested")
    return allocation._replace(nodes=nodes or allocation.nodes)


def _verify(flags: VerifyFlags, site: Site, found: Installed, allocation: Allocation) -> None:
    command, ranks = _make_command(flags, site, found, allocation)
    if flags.dry_run:
        _print_command(command, as_json=flags.as_json)
        return
    with terminate_cleanly():
        run = run_allreduce(command, environ=os.environ)
    findings = list(_judge(run, site, ranks))
    if run.status and not flags.as_json:
        for line in run.said[-_SAID:]:
            tell(line)
    _finish(flags, site, run, findings)


def _make_command(
    flags: VerifyFlags, site: Site, found: Installed, allocation: Allocation
) -> tuple[tuple[str, ...], int]:
    """Return the command that starts all ranks as a job would, and their number."""
    partition = allocation.partition
    request = JobRequest(
        program=("-c", PROGRAM, str(flags.timeout)),
        nodes=allocation.nodes,
        ranks_per_node=flags.ranks_per_node,
        gpus=_gpus(flags, site, allocation),
        cpus=-1 if partition in site.job.exclusive else 0,
        node_type=flags.node_type,
        launcher=BY_TASKS,
        options=(("partition", partition),) if partition else (),
        mpi=flags.mpi,
        image_mpi=find_image_mpi(found, site, os.environ),
    )
    layout = make_layout(request, site)
    step, ranks = make_step(request, site, layout), allocation.nodes * layout.tasks
    beside = step_in_job(step.command, tasks=ranks)
    return (*beside, str(found.program), "exec", "--", *step.program), ranks


def _gpus(flags: VerifyFlags, site: Site, allocation: Allocation) -> int:
    if flags.gpus >= 0:
        return flags.gpus
    return allocation.gpus or (-1 if any(node.gpus for node in site.node_types) else 0)


def _judge(run: Run, site: Site, ranks: int) -> Iterator[Finding]:
    scripts = [line for line in run.said if line.startswith(f"{PYTHON}:")]
    said = (*scripts, *run.said, "")[0]
    results = list(judge_results(run.results, ranks=ranks, interfaces=site.nics, said=said))
    yield from results
    worked = not any(one.level == FAIL for one in results)
    with_gpus = bool(run.results.of("nccl"))
    if not with_gpus and site.fabric and run.results.ranks:
        found = "no rank saw a GPU, so NCCL or RCCL was not tested"
        yield Finding(UNKNOWN, "network", found, "Ask for GPUs, and compare the image with the machine: hpcmod compat.")
    for finding in judge_network(run.reading, expected_network(site), worked=worked):
        if with_gpus or finding.rule != "network":
            yield finding


def _finish(flags: VerifyFlags, site: Site, run: Run, findings: Sequence[Finding]) -> None:
    if flags.as_json:
        print_json(
            site=site.name,
            fabric=site.fabric,
            network=describe_network(run.reading),
            facts=_facts(run.reading),
            lines=run.reading.lines,
            unread=run.reading.unread,
            messages=run.said,
            ranks=[asdict(result) for _, result in sorted(run.results.ranks.items())],
            findings=finding_values(findings),
        )
    else:
        print_findings(findings)
    sys.exit(1 if any(one.level == FAIL for one in findings) else 0)


def _facts(reading: Reading) -> dict[str, dict[str, int]]:
    """Return the fields of the logs with their values, and the number of lines of each."""
    return {name: {value: reading.facts[name][value] for value in values} for name, values in reading.findings.items()}
