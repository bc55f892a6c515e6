"""The command `hpcmod profile`: merge the traces of some ranks into one, and record those of a running job."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.check.running.nodes import record_ranks
from hpcmod.check.running.traces import find_profiles, read_profiles, write_trace
from hpcmod.cli.output import json_option, print_data, print_json, tell
from hpcmod.errors import BadInputError, CheckFailedError, LackingError, NotFoundError
from hpcmod.install.queue import read_job
from hpcmod.model.endings.origin import show_ranks
from hpcmod.model.jobs.facts import JobFacts
from hpcmod.model.logs.traces import MergedRank, RankTrace, merge_traces

_JOB = re.compile(r"\d{1,19}(?:_\d{1,19})?")
_MOST_SECONDS = 60  # the step that records has a time limit of two minutes
_MOST_RANKS = 64


@dataclass(frozen=True)
class Profile:
    """Traces of some ranks, merged into one file."""

    file: Path
    ranks: tuple[MergedRank, ...]
    aligned: bool
    """Whether the times of the ranks are comparable; otherwise each rank begins at 0."""
    problems: tuple[str, ...]
    """What was not read or recorded, as sentences."""


@click.command()
@click.argument("given", metavar="JOB|FILE...", nargs=-1, required=True)
@click.option("--rank", "ranks", default="0", metavar="N,...", help="Ranks of a running job to record (default: 0).")
@click.option(
    "--time",
    "seconds",
    default=10,
    type=click.IntRange(1, _MOST_SECONDS),
    metavar="S",
    help="Seconds to record (default: 10).",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File for the trace (default: hpcmod-profile-JOB.json).",
)
@json_option(Profile)
def profile_verb(given: tuple[str, ...], ranks: str, seconds: int, output: Path | None, as_json: bool) -> None:
    """Merge the traces of some ranks of a run into one file.

    Give the ID of a job that has ended, or files, to merge the traces that its profilers wrote in JSON. Give the ID of
    a running job to record some ranks with py-spy; it goes on. Open the merged trace at https://ui.perfetto.dev or
    chrome://tracing; each rank is a process.

    \b
    Examples:
      hpcmod profile 4711
      hpcmod profile 4711 --rank 0,7
      hpcmod profile hpcmod-profile-4711-rank0.json hpcmod-profile-4711-rank8.json -o trace.json
    """
    name = "merged"
    if len(given) == 1 and _JOB.fullmatch(given[0]) and not Path(given[0]).exists():
        name = given[0]
        traces, problems = _traces_of_job(name, _parse_ranks(ranks), seconds)
    else:
        traces, problems = read_profiles(map(Path, given))
    for problem in problems:
        tell(problem)
    if not traces:
        raise CheckFailedError("there is no trace to merge", "Give JSON files that a profiler wrote, or a running job.")
    merged = merge_traces(traces)
    path = output or Path(f"hpcmod-profile-{name}.json")
    write_trace(merged, path)
    if as_json:
        print_json(Profile(path, merged.ranks, merged.aligned, problems))
    else:
        print_data(path)
    numbers = [trace.rank for trace in traces]
    tell(f"{show_ranks(numbers)}: open {path} at https://ui.perfetto.dev or chrome://tracing")
    if not merged.aligned:
        tell("the times of the ranks are not comparable: each rank begins at 0")


def _parse_ranks(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(re.fullmatch(r"\d{1,7}", word) for word in words):
        raise BadInputError(f"--rank {text!r}: expected numbers", "Write --rank 0 or --rank 0,8.")
    ranks = tuple(sorted({int(word) for word in words}))
    if len(ranks) > _MOST_RANKS:
        raise BadInputError(
            f"--rank: {len(ranks)} ranks, at most {_MOST_RANKS}", "Ranks do the same work: record a few."
        )
    return ranks


def _traces_of_job(number: str, ranks: Sequence[int], seconds: int) -> tuple[tuple[RankTrace, ...], tuple[str, ...]]:
    """Return the traces of a job, and what could not be read: recorded now if it runs, else those in its directory."""
    facts, problems = read_job(number, os.environ)
    if facts is not None and facts.waiting:
        raise BadInputError(f"job {number} has not started", f"Wait for it: hpcmod why {number}")
    if facts is not None and facts.running:
        return _record(facts, ranks, seconds)
    directory = Path(facts.directory) if facts and facts.directory else Path()
    paths = find_profiles(directory, number)
    if not paths:
        told = f" ({'; '.join(problems)})" if problems else ""
        raise NotFoundError(
            f"job {number} is not running, and {directory.resolve()} has no hpcmod-profile-{number}-rank* of it{told}",
            "Run it with profiled ranks: hpcmod job NAME --env HPCMOD_PROFILE_RANK=0 --env HPCMOD_PROFILER=torch ...",
        )
    return read_profiles(paths)


def _record(facts: JobFacts, ranks: Sequence[int], seconds: int) -> tuple[tuple[RankTrace, ...], tuple[str, ...]]:
    tell(f"recording {show_ranks(ranks)} of job {facts.number} for {seconds} s ...")
    recorded = record_ranks(facts, ranks, os.environ, seconds=seconds)
    if not recorded.profiler:
        raise LackingError(
            f"no node of job {facts.number} has py-spy",
            "Add it to your module for the next job: hpcmod add NAME py-spy; or put py-spy on your PATH now.",
        )
    if not recorded.traces:
        told = "; ".join(recorded.problems) or "no process of these ranks was found"
        raise CheckFailedError(f"nothing was recorded: {told}", f"See what its ranks do: hpcmod why {facts.number}")
    return recorded.traces, recorded.problems
