"""The command `hpcmod profile`: record some ranks of a run, and merge their traces into one."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from hpcmod.check.running.nodes import record_ranks
from hpcmod.check.running.traces import Profiles, find_profiles, read_profiles, write_trace
from hpcmod.cli.containers import complete_site
from hpcmod.cli.flags import with_flags
from hpcmod.cli.jobs.launch import LaunchFlags, prepare_step
from hpcmod.cli.jobs.run_options import PROFILERS
from hpcmod.cli.output import print_data, print_json, tell
from hpcmod.errors import BadInputError, CheckFailedError, LackingError, NotFoundError
from hpcmod.install.queue import read_job
from hpcmod.machine import load_site
from hpcmod.model.endings.origin import show_ranks
from hpcmod.model.jobs.allocation import read_place
from hpcmod.model.jobs.facts import JobFacts
from hpcmod.model.jobs.request import TORCH, is_command_line
from hpcmod.model.jobs.slurm import check_scheduler
from hpcmod.model.logs.traces import merge_traces
from hpcmod.model.site import Site
from hpcmod.process import call

_JOB = re.compile(r"\d{1,19}(?:_\d{1,19})?")
_MOST_SECONDS = 60  # the step that records has a time limit of two minutes
_MOST_RANKS = 64
_PY_SPY = {"py-spy": "py-spy:speedscope"}
"""By --with, the profiler of the run script that writes what can be merged."""


class _OwnProgram(click.Command):
    """Notes whether the words after `--` are a program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options."""
        ctx.meta["has_program"] = "--" in args
        return super().parse_args(ctx, args)


@dataclass(frozen=True)
class ProfileFlags:
    """Arguments and options of `hpcmod profile`."""

    program: tuple[str, ...]
    ranks: str
    profiler: str
    steps: str
    seconds: int
    rate: int
    ranks_per_node: int
    gpus: int
    output: Path | None
    site: str | None
    dry_run: bool
    as_json: bool


@click.command(cls=_OwnProgram)
@click.argument("program", metavar="JOB|FILE...|-- PROGRAM", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--rank", "ranks", default="0", metavar="N,...", help="Ranks to record (default: 0).")
@click.option(
    "--with", "profiler", default="", help="Profiler of a program: torch (default), py-spy, rocprofv3, nsys, ...",
    shell_complete=lambda *_: list(PROFILERS),
)  # fmt: skip
@click.option("--steps", default="", metavar="N", help="Optimizer steps that torch records; 0: all (default: 3).")
@click.option(
    "--time", "seconds", default=10, type=click.IntRange(1, _MOST_SECONDS), metavar="S",
    help="Seconds to record a running job (default: 10).",
)  # fmt: skip
@click.option(
    "--rate", default=100, type=click.IntRange(1, 1000), help="Samples per second of a running job (default: 100)."
)
@click.option("--ranks-per-node", default=0, help="Ranks per node of a program (default: one per GPU).")
@click.option("--gpus", default=-1, help="GPUs per node of a program (default: all).")
@click.option(
    "-o", "output", type=click.Path(path_type=Path), help="File for the trace (default: hpcmod-profile-JOB.json)."
)
@click.option("--site", shell_complete=complete_site, help="Name or file of the site profile.")
@click.option("--dry-run", is_flag=True, help="Print what would run; run and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@with_flags(ProfileFlags)
def profile_verb(flags: ProfileFlags) -> None:
    """Record some ranks of a run, and merge their traces into one file.

    Give the ID of a running job to record it with py-spy; it goes on. Give the ID of a job that has ended, or files, to
    merge what its profilers wrote. In an allocation, give a program after `--` to run it with some ranks profiled.
    Open the merged trace at https://ui.perfetto.dev or chrome://tracing; each rank is a process.

    \b
    Examples:
      hpcmod profile 4711 --rank 0,7
      hpcmod profile --rank 0,8 -- train.py --epochs 1
      hpcmod profile --rank 0 --with py-spy -- train.py
      hpcmod profile hpcmod-profile-4711-rank0.json hpcmod-profile-4711-rank8.json -o trace.json
    """
    profile = load_site(flags.site, {} if flags.site else os.environ)
    ranks = _parse_ranks(flags.ranks)
    if click.get_current_context().meta["has_program"]:
        _profile_program(flags, profile, ranks)
    elif len(flags.program) == 1 and _JOB.fullmatch(flags.program[0]) and not Path(flags.program[0]).exists():
        check_scheduler(profile)
        _profile_job(flags, ranks)
    else:
        paths = [Path(name) for name in flags.program]
        if flags.profiler or any(path.suffix == ".py" for path in paths):
            raise BadInputError("no `--` before the program", f"hpcmod profile --rank 0 -- {' '.join(flags.program)}")
        if flags.dry_run:
            _print_plan(flags, f"merge {' '.join(flags.program)}")
        else:
            _print(flags, _merge(read_profiles(paths), flags, "merged"))


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


@dataclass(frozen=True)
class _Result:
    """What was recorded and merged."""

    file: Path | None
    """The merged trace; None if there is none."""
    ranks: tuple[dict[str, object], ...]
    aligned: bool
    found: Profiles


def _merge(found: Profiles, flags: ProfileFlags, job: str) -> _Result:
    """Write the merged trace, if there is anything to merge."""
    if not found.traces:
        return _Result(None, (), False, found)
    merged = merge_traces(found.traces)
    path = flags.output or Path(f"hpcmod-profile-{job}.json")
    write_trace(merged, path)
    ranks = tuple(
        {"rank": one.rank, "host": one.host, "profiler": one.kind, "events": count, "source": one.source}
        for one, count in zip(found.traces, merged.counts)
    )
    return _Result(path, ranks, merged.aligned, found)


def _print(flags: ProfileFlags, result: _Result) -> None:
    """Print the path of the merged trace, and tell the rest.

    Raises
    ------
    CheckFailedError
        If nothing was recorded.
    """
    found = result.found
    if flags.as_json:
        kept = [asdict(one) for one in found.kept]
        values = {"file": str(result.file) if result.file else None, "ranks": list(result.ranks)}
        print_json(**values, aligned=result.aligned, kept=kept, problems=list(found.problems), command=[])
    elif result.file:
        print_data(result.file)
    for problem in found.problems:
        tell(problem)
    for one in found.kept:
        tell(f"{one.path} stays as it is; open it with {one.opened_by}")
    if result.file:
        number = [int(str(one["rank"])) for one in result.ranks]
        tell(f"{show_ranks(number)}: open {result.file} at https://ui.perfetto.dev or chrome://tracing")
        if not result.aligned:
            tell("the times of the ranks are not comparable: each rank begins at 0")
    elif not found.kept and not flags.as_json:
        raise CheckFailedError("there is nothing to merge", "Give files that a profiler wrote, or a running job.")
    if not result.file and not found.kept:
        sys.exit(1)


def _print_plan(flags: ProfileFlags, what: str, command: Sequence[str] = ()) -> None:
    if flags.as_json:
        print_json(file=None, ranks=[], aligned=False, kept=[], problems=[], command=list(command))
    else:
        print_data(what)


def _profile_job(flags: ProfileFlags, ranks: tuple[int, ...]) -> None:
    number = flags.program[0]
    facts, problems = read_job(number, os.environ)
    if facts is not None and facts.waiting:
        raise BadInputError(f"job {number} has not started", f"Wait for it: hpcmod why {number}")
    if facts is not None and facts.running:
        if flags.dry_run:
            _print_plan(flags, f"record {show_ranks(ranks)} of job {number} with py-spy for {flags.seconds} s")
        else:
            _record(flags, facts, ranks)
        return
    directory = Path(facts.directory) if facts and facts.directory else Path()
    paths = find_profiles(directory, number)
    if not paths:
        told = f" ({'; '.join(problems)})" if problems else ""
        raise NotFoundError(
            f"job {number} is not running, and {directory.resolve()} has no hpcmod-profile-{number}-rank* of it{told}",
            "Run it with profiled ranks: hpcmod job NAME --profile-rank 0 --profiler torch --submit -- train.py",
        )
    if flags.dry_run:
        _print_plan(flags, f"merge {' '.join(map(str, paths))}")
    else:
        _print(flags, _merge(read_profiles(paths), flags, number))


def _record(flags: ProfileFlags, facts: JobFacts, ranks: tuple[int, ...]) -> None:
    tell(f"recording {show_ranks(ranks)} of job {facts.number} for {flags.seconds} s ...")
    recorded = record_ranks(facts, ranks, os.environ, seconds=flags.seconds, rate=flags.rate)
    if not recorded.profiler:
        raise LackingError(
            f"no node of job {facts.number} has py-spy",
            "Add it to your module for the next job: hpcmod add NAME py-spy; or put py-spy on your PATH now.",
        )
    if not recorded.traces:
        told = "; ".join(recorded.problems) or "no process of these ranks was found"
        raise CheckFailedError(f"nothing was recorded: {told}", f"See what its ranks do: hpcmod why {facts.number}")
    _print(flags, _merge(Profiles(recorded.traces, (), recorded.problems), flags, facts.number))


def _profile_program(flags: ProfileFlags, site: Site, ranks: tuple[int, ...]) -> None:
    """Run a program in the current allocation, and merge the traces of its profiled ranks."""
    from hpcmod.render.jobscript import make_argv, render_step

    profiler = flags.profiler or TORCH
    if flags.steps and profiler != TORCH:
        raise BadInputError(f"--steps is for torch, not for {profiler}", "Leave it out, or write --with torch.")
    if is_command_line(flags.program):
        raise BadInputError(
            f"{flags.program[0]} is not Python, and only Python programs are profiled",
            "Start the profiler yourself: hpcmod launch -- PROFILER " + flags.program[0],
        )
    launch = LaunchFlags(
        program=flags.program,
        dry_run=flags.dry_run,
        site=flags.site,
        node_type="",
        launcher=None,
        ranks_per_node=flags.ranks_per_node,
        mpi="",
        gpus=flags.gpus,
        gpus_visible=None,
        binds=(),
        stage=None,
        stage_to=None,
        save_caches="",
        restore_caches="",
        rdzv=None,
        max_restarts="",
        tee="",
        debug="",
        start=None,
        preload="",
        profile_rank=",".join(map(str, ranks)),
        profiler=_PY_SPY.get(profiler, profiler),
        profile_steps=flags.steps,
    )
    step, image = prepare_step(launch, site)
    if flags.dry_run:
        _print_plan(flags, render_step(step), make_argv(step, image=image or "$SIF"))
        return
    began = time.time()
    status = call(make_argv(step, image=image), to_stderr=flags.as_json)
    place = read_place(os.environ)
    paths = find_profiles(Path(), place.job, since=began - 1)
    if not paths and status:
        sys.exit(status)
    _print(flags, _merge(read_profiles(paths), flags, place.job))
    sys.exit(status)
