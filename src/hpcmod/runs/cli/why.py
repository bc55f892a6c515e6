"""The command `hpcmod why`: explain why a run failed, is slow or hangs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from hpcmod.catalogue import did_you_mean, find_catalogues, loaded_modules, look_around
from hpcmod.core.cli.findings import print_findings
from hpcmod.core.cli.output import json_option, print_json, print_text, print_wrapped, tell
from hpcmod.core.errors import BadInputError, LackingError, NotFoundError
from hpcmod.core.values.json_form import SPLICED
from hpcmod.jobs import module_of_job, read_job
from hpcmod.jobs.values.facts import JobFacts
from hpcmod.jobs.values.slurm import check_scheduler
from hpcmod.machine import load_site
from hpcmod.machine.values.tables import Network
from hpcmod.runs.known_endings import read_known_endings
from hpcmod.runs.running.logs import RunFiles, find_logs, read_given
from hpcmod.runs.running.nodes import ask_ranks
from hpcmod.runs.values.endings.diagnosis import Diagnosis, Group, diagnose
from hpcmod.runs.values.endings.ending import CAUSE, SYMPTOM, Ending
from hpcmod.runs.values.endings.events import EXIT, Event, read_events
from hpcmod.runs.values.endings.flight import Mismatch, find_mismatch
from hpcmod.runs.values.endings.origin import show_ranks
from hpcmod.runs.values.endings.stacks import Doing, NodeAnswer, group_ranks, judge_hang, judge_start, tell_group
from hpcmod.runs.values.endings.statuses import explain_status
from hpcmod.runs.values.logs.network import NetworkUsed, find_network

_JOB = re.compile(r"\d{1,19}(?:_\d{1,19})?")
"""ID of a job, or of one of an array."""
_CURE = "Give a job ID, or text files with the output of a run that you may read."


@dataclass(frozen=True)
class Explanation:
    """Why a run failed or hangs."""

    job: JobFacts | None
    """What Slurm tells about it; null without a job ID."""
    failed: bool
    """Whether something is wrong with the run."""
    diagnosis: Diagnosis = field(metadata=SPLICED)
    doing: tuple[Doing, ...]
    """What the ranks of a running job do."""
    verdict: str
    """Which ranks of a running job wait for which; empty if no rank was seen."""
    mismatch: Mismatch | None
    """The first collective in which the ranks differ, from dumps of the flight recorder."""
    network: NetworkUsed
    files: tuple[str, ...]
    """The files that were read."""
    unknown: tuple[str, ...]
    """What could not be found out, as sentences."""


@click.command()
@click.argument("given", metavar="JOB|FILE...", nargs=-1, required=True)
@click.option("--stacks/--no-stacks", default=True, help="Look at the ranks of a running job (default: yes).")
@json_option(Explanation)
def why_verb(given: tuple[str, ...], stacks: bool, as_json: bool) -> None:
    """Explain why a run failed or hangs.

    Give a job ID, files with the output of a run, or directories with debug logs or dumps of PyTorch's flight recorder.
    A running job is asked on all its nodes at once, and goes on. The exit code is 1 if something is wrong with the run.

    \b
    Examples:
      hpcmod why 4711
      hpcmod why train-4711.out
      hpcmod why train-4711.out hpcmod-debug-4711
      hpcmod why 4711 --json | jq -r .cause.title
    """
    site = load_site(None, os.environ)
    numbers = [text for text in given if _JOB.fullmatch(text) and not Path(text).exists()]
    paths = [Path(text) for text in given if text not in numbers]
    if len(numbers) > 1:
        raise click.UsageError("give one job ID")
    name = (module_of_job(numbers[0]) if numbers else "") or next(iter(loaded_modules()), "NAME")
    endings, unknown = read_known_endings(find_catalogues(site, os.environ, tell=tell), module=name)
    if numbers:
        check_scheduler(site)
    facts = _find_job(numbers[0], unknown) if numbers else None
    if facts:
        logs, missing = find_logs(facts)
        paths += logs
        unknown += [] if facts.waiting else missing
    files = read_given(paths)
    if not (facts or files.logs or files.dumps):
        raise BadInputError(next(iter(files.unknown), "there is no output to read"), _CURE)
    answers = _ask(facts, unknown, name) if facts and facts.running and stacks else ()
    explained = _explain(facts, files, endings, answers, site.network, unknown)
    if as_json:
        print_json(explained)
    else:
        _print(explained)
    sys.exit(1 if explained.failed else 0)


def _find_job(number: str, unknown: list[str]) -> JobFacts:
    facts, problems = read_job(number, os.environ)
    unknown += problems
    if facts is None and problems and problems[0].startswith("scontrol"):
        cure = "Run this where `squeue` works, such as a login node, or name its output file: hpcmod why FILE"
        raise LackingError(f"Slurm does not answer about job {number}: {problems[0]}", cure)
    if facts is None:
        told = f" ({problems[0]})" if problems else ""
        raise NotFoundError(f"Slurm does not know job {number}{told}", "Give the file with its output: hpcmod why FILE")
    if not facts.steps:
        unknown.append("memory and exit code of each step: there is no accounting of this job")
    return facts


def _ask(facts: JobFacts, unknown: list[str], name: str) -> tuple[NodeAnswer, ...]:
    tell(f"asking the nodes of job {facts.number} ...")
    asked = ask_ranks(facts, os.environ)
    silent = facts.node_count - len(asked.answers)
    if silent > 0:
        told = f" ({asked.problem})" if asked.problem else ""
        unknown.append(f"what the ranks do: {silent} of {facts.node_count} nodes gave no answer{told}")
    elif not any(answer.ranks for answer in asked.answers):
        unknown.append("what the ranks do: no process of a rank was found on the nodes")
    problems = {rank.problem for answer in asked.answers for rank in answer.ranks if rank.problem}
    unknown += [f"some stacks: {problem}" for problem in sorted(problems)[:3]]
    if asked.answers and not any(answer.profiler for answer in asked.answers):
        unknown.append(
            "the line that each rank is at: there is no py-spy. For this job, pip install it in a virtual environment "
            "outside of the container (`pip` of a loaded module is the container's), put it on your PATH, and ask "
            f"again; for later ones: hpcmod add {name} py-spy"
        )
    return asked.answers


def _explain(
    facts: JobFacts | None,
    files: RunFiles,
    endings: Sequence[Ending],
    answers: Sequence[NodeAnswer],
    expected: Network,
    unknown: Sequence[str],
) -> Explanation:
    events = [event for log in files.logs for event in read_events(log, endings)]
    world = facts.tasks if facts and facts.tasks > 1 else 0
    events += _of_state(facts, endings, events) if facts else ()
    diagnosis = diagnose(events, world=world, nodes=facts.node_count if facts else 0)
    ranks = [rank for answer in answers for rank in answer.ranks]
    doing, mismatch, network = group_ranks(ranks), find_mismatch(files.dumps), find_network(files.logs, expected)
    verdict = (judge_start(ranks) or judge_hang(doing, world)) if ranks else None
    cause = _with_similar(diagnosis.cause)
    return Explanation(
        job=facts,
        failed=bool(
            diagnosis.followed
            or (cause and cause.kind in (CAUSE, SYMPTOM))
            or (facts and (facts.code or facts.signal))
            or (verdict and verdict.hangs)
            or mismatch
            or network.slow
        ),
        diagnosis=replace(diagnosis, cause=cause),
        doing=doing,
        verdict=verdict.sentence if verdict else "",
        mismatch=mismatch,
        network=network,
        files=tuple(log.name for log in files.logs),
        unknown=tuple(dict.fromkeys((*unknown, *files.unknown))),
    )


def _with_similar(cause: Group | None) -> Group | None:
    """Return a cause; of a module that is unknown, its cure begins with containers of a similar name."""
    if cause is None or cause.rule != "module-unknown":
        return cause
    unknown = cause.text.rpartition('are unknown: "')[2].partition('"')[0].partition("/")[0]
    names = {listed.module.rpartition("/")[0] for listed in look_around(None, say=lambda _: None).containers()}
    near = did_you_mean(unknown, names).partition(" See: ")[0]
    return cause if unknown in names or "?" not in near else replace(cause, cure=f"{near} {cause.cure}")


def _of_state(facts: JobFacts, endings: Sequence[Ending], events: Sequence[Event]) -> list[Event]:
    """Return what the state of a job and of its steps says, unless the logs say it too."""
    states = {facts.state, *(step.state for step in facts.steps)}
    told = {event.rule for event in events}
    job, text = f"job {facts.number}", f"state {facts.state}"
    of_states = [
        Event(ending.kind, ending.name, ending.title, (), "", job, 0, text, ending=ending)
        for ending in endings
        if states.intersection(ending.states) and ending.name not in told
    ]
    if of_states or events or not (facts.code or facts.signal):
        return of_states
    title = f"ended with {explain_status(facts.code, facts.signal)}"
    text = f"exit code {facts.code}, signal {facts.signal}"
    return [Event(CAUSE, EXIT, title, (), "", job, 0, text, signal=facts.signal, code=facts.code)]


def _print(told: Explanation) -> None:
    if told.job:
        print_wrapped(_tell_job(told.job))
    for doing in told.doing:
        print_wrapped(f"  {tell_group(doing)}")
    if told.verdict:
        print_wrapped(told.verdict)
    if told.mismatch:
        _print_mismatch(told.mismatch)
    diagnosis = told.diagnosis
    if diagnosis.cause:
        _print_cause(diagnosis.cause, diagnosis)
    elif not told.verdict and not told.mismatch and not told.network.findings:
        print_wrapped(_tell_nothing(told))
    for title, groups in (("Also", diagnosis.others), ("Then", diagnosis.followed), ("Perhaps", diagnosis.hints)):
        for group in groups[:8]:
            print_wrapped(f"{title}: {_tell_group(group)} {_where(group)}")
    if told.network.used:
        print_wrapped(f"Network: {told.network.used}")
    print_findings(told.network.findings)
    for sentence in told.unknown:
        print_wrapped(f"Unknown: {sentence}")


def _tell_job(facts: JobFacts) -> str:
    ended = f", {explain_status(facts.code, facts.signal)}" if facts.code or facts.signal else ""
    where = f" on {facts.nodes}" if facts.nodes else ""
    time = f", {facts.elapsed} of {facts.limit}" if facts.elapsed and facts.limit else ""
    reason = f" ({facts.reason})" if facts.reason else ""
    name = f" ({facts.name})" if facts.name else ""
    times = "once" if facts.requeued == 1 else f"{facts.requeued} times"
    again = f", requeued {times}" if facts.requeued else ""
    return f"job {facts.number}{name}: {facts.state}{reason}{where}{time}{again}{ended}"


def _tell_nothing(told: Explanation) -> str:
    if told.job and told.job.waiting:
        begins = f", expected at {told.job.begins}" if told.job.begins else ""
        return f"It ran, and waits to start again{begins}." if told.job.requeued else "It has not started yet."
    if told.diagnosis.followed:
        return "No rank says why it failed; below is what the others said."
    if told.job and told.job.running:
        return "Its output shows no error."
    return "Nothing known was found in the output." if told.files else "There is no output to read."


def _tell_group(group: Group) -> str:
    who = f"{group.who}: " if group.who else ""
    place = f", at {group.place}" if group.place else ""
    return f"{who}{group.title}{place}"


def _where(group: Group) -> str:
    times = f", {group.count} lines" if group.count > 1 else ""
    return f"({group.file}:{group.line}{times})" if group.line else f"({group.text})"


def _print_cause(cause: Group, diagnosis: Diagnosis) -> None:
    words = {CAUSE: "Cause", SYMPTOM: "Seen"}
    print_wrapped(f"{words.get(cause.kind, 'Perhaps')}: {_tell_group(cause)}")
    if cause.line:
        print_text(f"    {cause.file}:{cause.line}: {cause.text}")
    for waiting in diagnosis.collectives if len(diagnosis.collectives) > 1 else ():
        print_wrapped(f"    {show_ranks(waiting.ranks)}: in {waiting.name}, number {waiting.number}")
    if diagnosis.silent and cause.kind == SYMPTOM:
        print_wrapped(f"    {show_ranks(diagnosis.silent)} did not report it: look there first")
    if cause.meaning:
        print_wrapped(f"    {cause.meaning}")
    if cause.cure:
        print_wrapped(f"To fix it: {cause.cure}")
    if cause.source:
        print_text(f"See {cause.source}")


def _print_mismatch(mismatch: Mismatch) -> None:
    print_wrapped(f"Cause: the ranks of group {mismatch.group} differ in collective {mismatch.number}:")
    for different in mismatch.calls:
        print_wrapped(f"  {show_ranks(different.ranks)}: {different.call}")
    for missing in mismatch.missing:
        print_wrapped(f"  {show_ranks([missing.rank])}: has not called it; its last one is {missing.last}")
