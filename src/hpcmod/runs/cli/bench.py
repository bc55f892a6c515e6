"""The command `hpcmod bench`: measure the bandwidth of a container's collectives, and compare it with references."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from hpcmod.catalogue import complete_container, find_ready, look_around
from hpcmod.core.cli.arguments import complete_file
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import json_option, print_json, print_table, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.errors import BadInputError, CheckFailedError, NotFoundError
from hpcmod.core.fs.reading import UnusableFileError, read_text
from hpcmod.core.process import run
from hpcmod.core.values.finding import FAIL, Finding
from hpcmod.jobs import DryRun, PlaceFlags, find_allocation, make_allocation, place_options, print_dry_run, run_again
from hpcmod.jobs.values.allocation import Allocation
from hpcmod.machine import find_machine
from hpcmod.machine.values.site import Site
from hpcmod.modules import Installed, check_python_module, site_of
from hpcmod.runs.bandwidth.history import MeasuredWith
from hpcmod.runs.bandwidth.steps import (
    LIBRARIES,
    NCCL_TESTS,
    TORCH,
    BenchmarkRequest,
    BenchmarkStep,
    choose_library,
    has_gpus,
    make_benchmark_steps,
)
from hpcmod.runs.cli.bench_results import Bandwidths, Results, find_left_out, show_results
from hpcmod.runs.values.bandwidth.measurement import COLLECTIVES, USUAL, Measurement
from hpcmod.runs.values.bandwidth.nccl_tests import read_bandwidths
from hpcmod.runs.values.bandwidth.sizes import parse_size_range
from hpcmod.runs.values.training import TrainingSpeed, compare_speeds, read_speeds

_LIMIT = 64 << 20  # bytes of a log
_MINUTES = 30  # time limit of an allocation for this command
_SAID = 10  # last lines of a step that failed
_LOG = "Name the output of nccl-tests or rccl-tests, of the benchmarks of DDP or Horovod, or of a Trainer."
_TRAININGS = ("LOG", "MODEL", "GPUS", "SAMPLES/S", "PER GPU", "S/STEP", "TFLOP/S PER GPU", "SCALING")


@dataclass(frozen=True)
class BenchFlags(PlaceFlags):
    """Arguments and options of `hpcmod bench`."""

    names: tuple[str, ...]
    """One container; with `read`, log files."""
    ops: str
    counts: str
    sizes: str
    repeat: int
    library: str | None
    ranks_per_node: int
    """0: one per GPU."""
    read: bool
    model: tuple[float, int]
    """Parameters of a language model, and the length of a sequence."""
    tolerance: int
    """Percent."""
    dry_run: bool
    as_json: bool


@dataclass(frozen=True)
class TrainingSpeeds:
    """How fast trainings were."""

    trainings: tuple[TrainingSpeed, ...]


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
@click.option("--library", type=click.Choice(LIBRARIES), default=None, help="What measures (default: the best here).")
@click.option("--ranks-per-node", default=0, help="Ranks per node (default: one per GPU, else 1).")
@click.option("--read", is_flag=True, help="Read logs of benchmarks or trainings instead of running one.")
@click.option(
    "--model",
    type=(click.FloatRange(0, 1e15), click.IntRange(0, 1 << 40)),
    default=(0, 0),
    metavar="PARAMETERS LENGTH",
    help="With --read: compute the TFLOP/s of a language model, e.g. 7e9 4096.",
)
@click.option(
    "--tolerance",
    type=click.IntRange(0, 100),
    default=20,
    metavar="PERCENT",
    help="How far below its reference a bandwidth may be (default: 20).",
)
@click.option("--dry-run", is_flag=True, help="Print the commands; run nothing.")
@json_option(Bandwidths, DryRun, TrainingSpeeds)
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
      hpcmod bench PyTorch --ops all_reduce --sizes 8M-1G --json
      hpcmod bench --read slurm-4711.out --site cray-ex-gh200
      hpcmod bench --read n1.out n2.out -N 1,2 --model 7e9 4096      # of a training
    """
    site = find_machine(None, os.environ, flag=flags.site).site
    if flags.read:
        _read(flags, site)
    if len(flags.names) != 1:
        raise click.UsageError("give the NAME of one container, or --read and logs")
    container = find_ready(look_around(flags.site), flags.names[0])
    site = site_of(container.record, site, os.environ, asked=flags.site, tell=tell)
    request = BenchmarkRequest(
        library=flags.library or "",
        collectives=parse_collectives(flags.ops),
        sizes=parse_size_range(flags.sizes) if flags.sizes else None,
        repeats=flags.repeat,
        ranks_per_node=flags.ranks_per_node,
        gpus=flags.gpus,
        node_type=flags.node_type,
    )
    counts = parse_counts(flags.counts)
    most = max(counts, default=1)
    allocation = find_allocation(site)
    if allocation is None:
        _run_in_allocation(flags, site, nodes=most)
    if most > allocation.nodes:
        raise BadInputError(f"-N {flags.counts}: this allocation has {allocation.nodes} nodes", "Ask for fewer: -N.")
    request = replace(request, library=choose_library(request, site, container))
    if request.library == TORCH:
        if "sendrecv" in request.collectives:
            raise BadInputError("--ops sendrecv: PyTorch cannot measure it", f"Add --library {NCCL_TESTS}.")
        check_python_module(container, "torch", "torch")
    steps = _make_steps(request, counts or (allocation.nodes,), site, allocation, container)
    if flags.dry_run:
        print_dry_run([step.shown for step in steps], as_json=flags.as_json)
        return
    with terminate_cleanly():
        _measure(flags, site, container, request, steps)


def parse_collectives(text: str) -> tuple[str, ...]:
    """Return collectives from a list with commas; those that training uses if it is empty.

    Raises BadInputError if one is not known.
    """
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip())) or USUAL
    unknown = [name for name in names if name not in COLLECTIVES]
    if unknown:
        raise BadInputError(f"--ops {unknown[0]}: unknown collective", f"Choose from {', '.join(COLLECTIVES)}.")
    return names


def parse_counts(text: str) -> tuple[int, ...]:
    """Return numbers of nodes from a list with commas, in its order; none if it is empty.

    Raises BadInputError if it is not such a list.
    """
    words = [word.strip() for word in text.split(",")] if text else []
    if not all(re.fullmatch(r"[1-9]\d{0,5}", word) for word in words):
        raise BadInputError(f"-N {text}: expected numbers of nodes", "Write -N 2, or -N 1,2,4.")
    return tuple(dict.fromkeys(map(int, words)))


def _make_steps(
    request: BenchmarkRequest, counts: Sequence[int], site: Site, allocation: Allocation, container: Installed
) -> list[BenchmarkStep]:
    steps = [step for count in counts for step in make_benchmark_steps(request, count, site, allocation, container)]
    several = [step for step in steps if step.ranks > 1]
    if not several:
        raise BadInputError("one rank has nothing to exchange", "Use more: -N 2, or --ranks-per-node 2.")
    if len(several) < len(steps):
        tell("left out 1 node, where one rank has nothing to exchange: use --ranks-per-node 2")
    return several


def _run_in_allocation(flags: BenchFlags, site: Site, *, nodes: int) -> NoReturn:
    """Request nodes, and run this command again on them."""
    command = make_allocation(flags, site, nodes=nodes, minutes=_MINUTES, ranks_per_node=flags.ranks_per_node)
    if flags.dry_run:
        print_dry_run([command], as_json=flags.as_json)
        sys.exit()
    with terminate_cleanly():
        sys.exit(run_again(command))


def _measure(
    flags: BenchFlags, site: Site, container: Installed, request: BenchmarkRequest, steps: Sequence[BenchmarkStep]
) -> None:
    measurements: list[Measurement] = []
    findings: list[Finding] = []
    for number, step in enumerate(steps, 1):
        tell(f"step {number} of {len(steps)}: {step.nodes} node{'s' * (step.nodes > 1)}")
        done = run(step.argv, env=os.environ, tied=True)
        reading = read_bandwidths(done.stdout, nodes=step.nodes)
        measurements += reading.measurements
        findings += [finding for finding in reading.findings if finding.level == FAIL]
        findings += find_left_out(done.stdout)
        if done.status:
            said = "\n".join((done.stderr or done.stdout).splitlines()[-_SAID:])
            subject = f"step on {step.nodes} node{'s' * (step.nodes > 1)}"
            cure = "Fix the reported problem, and repeat."
            findings.append(Finding(FAIL, "step", f"exit code {done.status}:\n{said}", cure, subject))
        if step.ranks > 1 and any(measurement.ranks == 1 for measurement in reading.measurements):
            alone = f"each of {step.ranks} ranks measured only itself: the image's nccl-tests are built without MPI"
            findings.append(Finding(FAIL, "alone", alone, "Use PyTorch: --library torch", "nccl-tests"))
    if not measurements:
        raise CheckFailedError("nothing was measured:\n" + "\n".join(finding.found for finding in findings))
    measured = MeasuredWith(
        site=site.name,
        module=container.module,
        image=container.image.sha256,
        method=f"{request.library} on {'GPUs' if has_gpus(request, site) else 'CPUs'}",
    )
    results = Results(measured, tuple(measurements), tuple(findings))
    show_results(results, site, tolerance=flags.tolerance / 100, as_json=flags.as_json, remember=True)


def _read(flags: BenchFlags, site: Site) -> NoReturn:
    """Read logs, show them as if they had been measured here, and exit."""
    if not flags.names:
        raise click.UsageError("give the logs to read: hpcmod bench --read LOG...")
    texts = {name: _read_log(Path(name)) for name in flags.names}
    collectives = parse_collectives(flags.ops) if flags.ops else ("",)
    counts = parse_counts(flags.counts) or (0,)
    if _show_trainings(flags, texts, counts, each=flags.ranks_per_node or site.nodes.usual.gpus):
        sys.exit()
    if len(collectives) > 1 or len(counts) > 1:
        raise BadInputError(
            "a log that does not say what it measured can be of one collective and node count only",
            "Read the others in further commands: --ops all_reduce -N 2.",
        )
    measurements: list[Measurement] = []
    findings: list[Finding] = []
    for name, text in texts.items():
        reading = read_bandwidths(text, collective=collectives[0], nodes=counts[0])
        if not reading.measurements:
            raise BadInputError(f"{name}: no table of nccl-tests or rccl-tests, and no speed of a training", _LOG)
        measurements += reading.measurements
        findings += [replace(finding, subject=f"{name} {finding.subject}") for finding in reading.findings]
    results = Results(MeasuredWith(site.name, "", "", "logs"), tuple(measurements), tuple(findings))
    show_results(results, site, tolerance=flags.tolerance / 100, as_json=flags.as_json, remember=False)


def _show_trainings(flags: BenchFlags, texts: dict[str, str], counts: Sequence[int], *, each: int) -> bool:
    """Show the speeds of trainings; return whether a log has any.

    `counts`: Number of nodes of each log, or of all of them.
    `each`: GPUs of a node.
    """
    nodes = counts if len(counts) == len(texts) else [counts[0]] * len(texts)
    read = [read_speeds(name, text, gpus=count * each) for (name, text), count in zip(texts.items(), nodes)]
    speeds = compare_speeds([speed for log in read for speed in log], 6 * flags.model[0] * flags.model[1])
    if flags.as_json and speeds:
        print_json(TrainingSpeeds(speeds))
    elif speeds:
        print_table(_TRAININGS, [_format_speed(speed) for speed in speeds])
    if not all(speed.gpus for speed in speeds):
        tell("the number of GPUs is not in the log: give it with -N NODES --ranks-per-node GPUS")
    return bool(speeds)


def _format_speed(speed: TrainingSpeed) -> tuple[str, ...]:
    figures = (
        *(f"{rate:.2f}" if rate else "-" for rate in (speed.rate, speed.each)),
        f"{speed.step:.3f}" if speed.step else "-",
        f"{speed.tflops:.1f}" if speed.tflops else "-",
        f"{speed.scaling:.0%}" if speed.scaling else "-",
    )
    return (speed.log, f"{speed.model} {speed.layout}".strip() or "-", str(speed.gpus or "?"), *figures)


def _read_log(path: Path) -> str:
    try:
        return read_text(path, _LIMIT, errors="replace")
    except FileNotFoundError as err:
        raise NotFoundError(f"{path}: no such file", _LOG) from err
    except UnusableFileError as err:
        raise BadInputError(f"{path}: {err.strerror}", _LOG) from err
