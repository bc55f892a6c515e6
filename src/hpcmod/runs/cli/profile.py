"""The command `hpcmod profile`: merge the traces of some ranks into one."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.core.cli.output import json_option, print_data, print_json, tell
from hpcmod.core.errors import CheckFailedError, NotFoundError
from hpcmod.jobs import module_of_job, read_job
from hpcmod.runs.running.traces import find_profiles, read_profiles, write_trace
from hpcmod.runs.values.endings.origin import show_ranks
from hpcmod.runs.values.logs.traces import MergedRank, RankTrace, merge_traces

_JOB = re.compile(r"\d{1,19}(?:_\d{1,19})?")


@dataclass(frozen=True)
class Profile:
    """Traces of some ranks, merged into one file."""

    file: Path
    ranks: tuple[MergedRank, ...]
    aligned: bool
    """Whether the times of the ranks are comparable; otherwise each rank begins at 0."""
    problems: tuple[str, ...]
    """What was not read, as sentences."""


@click.command()
@click.argument("given", metavar="JOB|FILE...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File for the trace (default: hpcmod-profile-JOB.json).",
)
@json_option(Profile)
def profile_verb(given: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    """Merge the traces of some ranks of a run into one file.

    Give a job ID, or files with the JSON traces that profilers wrote. Open the merged trace at
    https://ui.perfetto.dev or chrome://tracing; each rank is a process.

    \b
    Examples:
      hpcmod profile 4711
      hpcmod profile hpcmod-profile-4711-rank0.json hpcmod-profile-4711-rank8.json -o trace.json
    """
    name = "merged"
    if len(given) == 1 and _JOB.fullmatch(given[0]) and not Path(given[0]).exists():
        name = given[0]
        traces, problems = _traces_of_job(name)
    else:
        traces, problems = read_profiles(map(Path, given))
    for problem in problems:
        tell(problem)
    if not traces:
        raise CheckFailedError("there is no trace to merge", "Give JSON files that a profiler wrote.")
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


def _traces_of_job(number: str) -> tuple[tuple[RankTrace, ...], tuple[str, ...]]:
    """Return the traces in the directory of a job, and what could not be read."""
    facts, problems = read_job(number, os.environ)
    directory = Path(facts.files.directory) if facts and facts.files.directory else Path()
    paths = find_profiles(directory, number)
    if not paths:
        told = f" ({'; '.join(problems)})" if problems else ""
        name = module_of_job(number) or "NAME"
        raise NotFoundError(
            f"{directory.resolve()} has no hpcmod-profile-{number}-rank* of job {number}{told}",
            f"Run it with a profile: hpcmod job {name} --env HPCMOD_PROFILE_RANK=0 --env HPCMOD_PROFILER=torch ...",
        )
    return read_profiles(paths)
