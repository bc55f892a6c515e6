"""The command `hpcmod bench`: measure the bandwidth of a container's collectives, and compare it with references."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from hpcmod import machine
from hpcmod.check.bandwidth.history import MeasuredWith
from hpcmod.check.bandwidth.steps import (
    LIBRARIES,
    MPI,
    TORCH,
    BenchmarkRequest,
    BenchmarkStep,
    choose_library,
    has_gpus,
    make_benchmark_steps,
    make_startup_steps,
    run_benchmark_step,
)
from hpcmod.cli.containers import complete_container, complete_file, find_ready, look_around
from hpcmod.cli.flags import with_flags
from hpcmod.cli.jobs.run_options import mpi_option
from hpcmod.cli.output import print_data, print_json, tell
from hpcmod.cli.runs.allocation import (
    AllocationFlags,
    PlaceFlags,
    find_allocation,
    make_allocation,
    place_options,
    run_again,
)
from hpcmod.cli.runs.bench_options import BenchFlags, check_measurable, parse_collectives, parse_counts
from hpcmod.cli.runs.bench_results import Results, find_left_out, show_results
from hpcmod.cli.signals import terminate_cleanly
from hpcmod.cli.use.python_module import check_python_module
from hpcmod.errors import BadInputError, CheckFailedError, NotFoundError
from hpcmod.fs.reading import UnusableFileError, read_text
from hpcmod.install.installed import Installed
from hpcmod.model.bandwidth.measurement import Measurement, TableReading
from hpcmod.model.bandwidth.node_table import UNITS
from hpcmod.model.bandwidth.products import ProductSpeed, read_products
from hpcmod.model.bandwidth.reading import Known, read_bandwidths
from hpcmod.model.bandwidth.sizes import parse_size_range
from hpcmod.model.bandwidth.startup import TimedStart, summarize_starts
from hpcmod.model.finding import FAIL, Finding
from hpcmod.model.jobs.allocation import Allocation
from hpcmod.model.site import Site
from hpcmod.process import Completed
from hpcmod.render.quote import sh_word

PYTHON_MODULES = {TORCH: ("torch", "torch"), MPI: ("mpi4py", "mpi4py")}
"""By library: the Python module that the image needs, and its package."""

_LIMIT = 64 << 20  # bytes of a log
_MINUTES = 30  # time limit of an allocation for this command
_TRY_MPI = "If the ranks did not find each other, add --mpi pmix (Open MPI) or --mpi pmi2 (MPICH)."
_SAID = 10  # last lines of a step that failed


def _complete_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a container, or a log of `--read`."""
    complete = complete_file if ctx.params.get("read") else complete_container
    return complete(ctx, parameter, incomplete)


@click.command("bench")
@click.argument("names", metavar="NAME[/VERSION] | --read LOG...", nargs=-1, shell_complete=_complete_names)
@click.option("--ops", default="", metavar="LIST", help="Collectives, with commas (default: the five of training).")
@click.option(
    "-N",
    "--nodes",
    "counts",
    default="",
    metavar="LIST",
    help="Numbers of nodes: 1,2,4 (default: all of this allocation, else 1).",
)
@click.option(
    "--sizes",
    default="",
    metavar="FIRST-LAST",
    help="Sizes, each twice the one before (default: 1M-8G on GPUs, else 1K-16M).",
)
@click.option("--repeat", type=click.IntRange(1, 100), default=3, help="Number of runs (default: 3).")
@click.option("--iters", type=click.IntRange(1, 10000), default=20, help="Most calls per run and size (default: 20).")
@click.option("--library", type=click.Choice(LIBRARIES), default=None, help="What measures (default: the best here).")
@click.option(
    "--what",
    type=click.Choice(("collectives", "gemm", "io")),
    default="collectives",
    help="Collectives, matrix products of each rank, or start and reading of ranks (default: collectives).",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="File that each rank reads, with --what io.",
)
@click.option("--ranks-per-node", default=0, help="Ranks per node (default: one per GPU, else 1).")
@mpi_option
@click.option("--read", is_flag=True, help="Read logs of benchmarks instead of running one.")
@click.option("--unit", type=click.Choice(tuple(UNITS)), default=None, help="Unit of tables in LOG that name none.")
@click.option(
    "--tolerance",
    type=click.IntRange(0, 100),
    default=20,
    metavar="PERCENT",
    help="How far below its reference a bandwidth may be (default: 20).",
)
@click.option(
    "--history",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File of earlier runs, to compare with and add to (default: in your state directory).",
)
@click.option("--no-history", is_flag=True, help="Do not compare with earlier runs, and do not remember this one.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="File for a report.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="File for the charts.")
@click.option("--plot", is_flag=True, help="Print bars of the bandwidths (default: on a terminal).")
@click.option("--dry-run", is_flag=True, help="Print the commands; run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@place_options
@with_flags(BenchFlags)
def bench_verb(flags: BenchFlags) -> None:
    """Measure the bandwidth between nodes or GPUs, and compare it.

    Runs collectives in the container, with nccl-tests or rccl-tests if the image has them and the node has GPUs, else
    with its PyTorch; and compares the bus bandwidth with the site profile and with earlier runs. Inside an allocation
    it uses that allocation; outside, it requests one first. Exits with 1 if a bandwidth is too low.

    \b
    Examples:
      hpcmod bench PyTorch -N 1,2,4 -A project_465000001 -p standard-g
      hpcmod bench PyTorch --ops all_reduce --sizes 8M-1G --html report.html
      hpcmod bench PyTorch -N 2 --what gemm
      hpcmod bench PyTorch -N 2 --what io --data train.h5
      hpcmod bench --read slurm-4711.out --site cray-ex-gh200 --svg charts.svg
    """
    profile = machine.load_site(flags.site, {} if flags.site else os.environ)
    if flags.read:
        _read(flags, profile)
        return
    if len(flags.names) != 1:
        raise click.UsageError("give the NAME of one container, or --read and logs")
    if flags.unit:
        raise click.UsageError("--unit is for --read")
    if flags.data and flags.what != "io":
        raise click.UsageError("--data is for --what io")
    found = find_ready(look_around(flags.site), flags.names[0])
    request = _make_request(flags)
    counts = parse_counts(flags.counts)
    allocation = find_allocation(profile)
    if allocation is None:
        _run_in_allocation(flags, profile, nodes=max(counts or (1,)))
    if max(counts or (1,)) > allocation.nodes:
        raise BadInputError(f"-N {flags.counts}: this allocation has {allocation.nodes} nodes", "Ask for fewer: -N.")
    request = replace(request, library=choose_library(request, profile, found))
    check_measurable(request.collectives, request.library)
    if request.library in PYTHON_MODULES:
        check_python_module(found, *PYTHON_MODULES[request.library])
    steps = _make_steps(flags, request, counts or (allocation.nodes,), profile, allocation, found)
    if flags.dry_run:
        _print_commands([step.shown for step in steps], as_json=flags.as_json)
        return
    with terminate_cleanly():
        _measure(flags, profile, found, request, steps)


def _make_request(flags: BenchFlags) -> BenchmarkRequest:
    default = "sendrecv,all_reduce" if flags.library == MPI else ""
    return BenchmarkRequest(
        library=flags.library or "",
        collectives=() if flags.what != "collectives" else parse_collectives(flags.ops or default, flags.library or ""),
        sizes=parse_size_range(flags.sizes) if flags.sizes else None,
        repeats=flags.repeat,
        iterations=flags.iters,
        ranks_per_node=flags.ranks_per_node,
        mpi=flags.mpi,
        gpus=flags.gpus,
        node_type=flags.node_type,
    )


def _make_steps(
    flags: BenchFlags,
    request: BenchmarkRequest,
    counts: Sequence[int],
    site: Site,
    allocation: Allocation,
    found: Installed,
) -> list[BenchmarkStep]:
    if flags.what == "io":
        data = flags.data.resolve() if flags.data else None
        return [one for count in counts for one in make_startup_steps(request, count, site, allocation, found, data)]
    steps = [one for count in counts for one in make_benchmark_steps(request, count, site, allocation, found)]
    if not request.collectives:
        return steps
    several = [one for one in steps if one.ranks > 1]
    if not several:
        raise BadInputError("one rank has nothing to exchange", "Use more: -N 2, or --ranks-per-node 2.")
    if len(several) < len(steps):
        tell("left out 1 node, where one rank has nothing to exchange: use --ranks-per-node 2")
    return several


def _run_in_allocation(flags: BenchFlags, site: Site, *, nodes: int) -> NoReturn:
    """Request nodes, and run this command again on them."""
    place = {field.name: getattr(flags, field.name) for field in fields(PlaceFlags)}
    request = AllocationFlags(**place, nodes=nodes)
    command = make_allocation(request, site, minutes=_MINUTES, ranks_per_node=flags.ranks_per_node)
    if flags.dry_run:
        _print_commands([command], as_json=flags.as_json)
        sys.exit()
    with terminate_cleanly():
        sys.exit(run_again(command))


def _print_commands(commands: Sequence[Sequence[str]], *, as_json: bool) -> None:
    lines = [" ".join(map(sh_word, command)) for command in commands]
    print_json(dry_run=True, commands=lines) if as_json else print_data("\n".join(lines))


def _measure(
    flags: BenchFlags, site: Site, found: Installed, request: BenchmarkRequest, steps: Sequence[BenchmarkStep]
) -> None:
    measurements: list[Measurement] = []
    products: list[ProductSpeed] = []
    starts: list[TimedStart] = []
    findings: list[Finding] = []
    for number, step in enumerate(steps, 1):
        tell(f"step {number} of {len(steps)}: {step.nodes} node{'s' * (step.nodes > 1)}")
        began = time.monotonic()
        done = run_benchmark_step(step, os.environ)
        if step.starts and not done.status:
            starts.append(TimedStart(step.starts, step.nodes, step.ranks, time.monotonic() - began, done.stdout))
        reading = read_bandwidths(done.stdout, Known(nodes=step.nodes))
        measurements += reading.measurements
        products += read_products(done.stdout)
        findings += [one for one in reading.findings if one.level == FAIL]
        findings += [*find_left_out(done.stdout), *_explain_failure(done, step), *_find_alone(reading, step)]
    if not measurements and not products and not starts:
        cure = _TRY_MPI if request.library == MPI and not request.mpi else ""
        raise CheckFailedError("nothing was measured:\n" + "\n".join(one.found for one in findings), cure)
    results = Results(
        measured=MeasuredWith(
            site=site.name,
            module=found.module,
            image=found.of_image("sha256"),
            method=f"{request.library} on {'GPUs' if has_gpus(request, site) else 'CPUs'}",
        ),
        measurements=tuple(measurements),
        products=tuple(products),
        starts=summarize_starts(starts),
        findings=tuple(findings),
    )
    show_results(results, site, flags)


def _find_alone(reading: TableReading, step: BenchmarkStep) -> Iterator[Finding]:
    if step.ranks > 1 and any(one.ranks == 1 for one in reading.measurements):
        found = f"each of {step.ranks} ranks measured only itself: the image's nccl-tests are built without MPI"
        yield Finding(FAIL, "alone", found, "Use PyTorch: --library torch", "nccl-tests")


def _explain_failure(done: Completed, step: BenchmarkStep) -> Iterator[Finding]:
    if done.status:
        said = "\n".join((done.stderr or done.stdout).splitlines()[-_SAID:])
        subject = f"step on {step.nodes} node{'s' * (step.nodes > 1)}"
        yield Finding(
            FAIL, "step", f"exit code {done.status}:\n{said}", "Fix the reported problem, and repeat.", subject
        )


def _read(flags: BenchFlags, site: Site) -> None:
    """Read logs, and show them as if they had been measured here."""
    if not flags.names:
        raise click.UsageError("give the logs to read: hpcmod bench --read LOG...")
    collectives = parse_collectives(flags.ops, "") if flags.ops else ("",)
    counts = parse_counts(flags.counts) or (0,)
    if len(collectives) > 1 or len(counts) > 1:
        raise BadInputError(
            "a log that does not say what it measured can be of one collective and node count only",
            "Read the others in further commands: --ops all_reduce -N 2.",
        )
    known = Known(collectives[0], counts[0], flags.unit or "")
    readings = [(name, read_bandwidths(_read_log(Path(name)), known)) for name in flags.names]
    findings = [replace(one, subject=f"{name} {one.subject}") for name, reading in readings for one in reading.findings]
    measured = tuple(one for _, reading in readings for one in reading.measurements)
    results = Results(MeasuredWith(site.name, "", "", "logs"), measured, findings=tuple(findings))
    show_results(results, site, flags)


def _read_log(path: Path) -> str:
    try:
        return read_text(path, _LIMIT, errors="replace")
    except FileNotFoundError as err:
        raise NotFoundError(f"{path}: no such file", "Name the output of a benchmark.") from err
    except UnusableFileError as err:
        raise BadInputError(f"{path}: {err.strerror}", "Name the output of a benchmark.") from err
