"""The command `hpcmod why`: explain why a run failed, is slow or hangs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from hpcmod.catalogue.records.store import find_catalogues
from hpcmod.catalogue.visible.known_endings import read_known_endings
from hpcmod.check.running.logs import RunFiles, find_logs, read_given
from hpcmod.check.running.nodes import ask_ranks
from hpcmod.cli.findings import finding_values, print_findings
from hpcmod.cli.output import print_json, print_text, print_wrapped, tell
from hpcmod.errors import NotFoundError
from hpcmod.install.queue import read_job
from hpcmod.machine import load_site
from hpcmod.model.endings.diagnosis import Diagnosis, Group, diagnose
from hpcmod.model.endings.ending import CAUSE, SYMPTOM, Ending
from hpcmod.model.endings.events import EXIT, Event, read_events
from hpcmod.model.endings.flight import Mismatch, find_mismatch
from hpcmod.model.endings.network import NetworkUsed, find_network
from hpcmod.model.endings.origin import show_ranks
from hpcmod.model.endings.stacks import Doing, HangVerdict, NodeAnswer, group_ranks, judge_hang, tell_groups
from hpcmod.model.endings.statuses import explain_status
from hpcmod.model.jobs.facts import JobFacts
from hpcmod.model.jobs.slurm import check_scheduler
from hpcmod.model.logs.network import Expected, expected_network

_JOB = re.compile(r"\d{1,19}(?:_\d{1,19})?")
"""ID of a job, or of one of an array."""


@dataclass(frozen=True)
class _Explanation:
    """All that was found out."""

    facts: JobFacts | None
    diagnosis: Diagnosis
    doing: tuple[Doing, ...]
    verdict: HangVerdict | None
    """About a running job; None if there are no answers of its nodes."""
    mismatch: Mismatch | None
    network: NetworkUsed
    files: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Return whether something is wrong with the run."""
        main = self.diagnosis.main
        bad = bool(self.diagnosis.followed) or (main is not None and main.kind in (CAUSE, SYMPTOM))
        state = self.facts is not None and bool(self.facts.code or self.facts.signal)
        hangs = bool(self.verdict and self.verdict.hangs)
        return bad or state or hangs or self.mismatch is not None or self.network.slow


@click.command()
@click.argument("given", metavar="JOB|FILE...", nargs=-1, required=True)
@click.option("--stacks/--no-stacks", default=True, help="Look at the ranks of a running job (default: yes).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
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
    endings, faults = read_known_endings(find_catalogues(site, os.environ, tell=tell))
    numbers = [text for text in given if _JOB.fullmatch(text) and not Path(text).exists()]
    paths = [Path(text) for text in given if text not in numbers]
    if len(numbers) > 1:
        raise click.UsageError("give one job ID")
    unknown = list(faults)
    if numbers:
        check_scheduler(site)
    facts = _find_job(numbers[0], unknown) if numbers else None
    if facts:
        logs, missing = find_logs(facts)
        paths += logs
        unknown += [] if facts.waiting else missing
    found = read_given(paths)
    answers = _ask(facts, unknown) if facts and facts.running and stacks else ()
    explained = _explain(facts, found, endings, answers, expected_network(site), unknown)
    if as_json:
        _print_as_json(explained)
    else:
        _print(explained)
    sys.exit(1 if explained.failed else 0)


def _find_job(number: str, unknown: list[str]) -> JobFacts:
    facts, problems = read_job(number, os.environ)
    unknown += problems
    if facts is None:
        told = f" ({'; '.join(problems)})" if problems else ""
        raise NotFoundError(
            f"Slurm does not know job {number}{told}",
            "Give the file with its output instead: hpcmod why FILE",
        )
    if not facts.steps:
        unknown.append("memory and exit code of each step: there is no accounting of this job")
    return facts


def _ask(facts: JobFacts, unknown: list[str]) -> tuple[NodeAnswer, ...]:
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
            "the line that each rank is at: there is no py-spy. Add it to your module: hpcmod add NAME py-spy"
        )
    return asked.answers


def _explain(
    facts: JobFacts | None,
    found: RunFiles,
    endings: Sequence[Ending],
    answers: Sequence[NodeAnswer],
    expected: Expected,
    unknown: Sequence[str],
) -> _Explanation:
    events = [event for log in found.logs for event in read_events(log, endings)]
    world = facts.tasks if facts and facts.tasks > 1 else 0
    diagnosis = diagnose([*events, *(_of_state(facts, endings, events) if facts else ())], world=world)
    ranks = [rank for answer in answers for rank in answer.ranks]
    groups = group_ranks(ranks)
    return _Explanation(
        facts=facts,
        diagnosis=diagnosis,
        doing=groups,
        verdict=judge_hang(groups, world) if ranks else None,
        mismatch=find_mismatch(found.dumps),
        network=find_network(found.logs, expected),
        files=tuple(log.name for log in found.logs),
        unknown=(*unknown, *found.unknown),
    )


def _of_state(facts: JobFacts, endings: Sequence[Ending], events: Sequence[Event]) -> list[Event]:
    """Return what the state of a job and of its steps says, unless the logs say it too."""
    states = {facts.state: facts.nodes, **{step.state: step.nodes for step in facts.steps}}
    known = [one for one in endings for state in one.states if state in states]
    told = {event.rule for event in events}
    found = [
        Event(one.kind, one.name, one.title, (), "", f"job {facts.number}", 0, f"state {facts.state}", ending=one)
        for one in known
        if one.name not in told
    ]
    if not found and not events and (facts.code or facts.signal):
        title = f"ended with {explain_status(facts.code, facts.signal)}"
        text = f"exit code {facts.code}, signal {facts.signal}"
        event = Event(CAUSE, EXIT, title, (), "", f"job {facts.number}", 0, text, signal=facts.signal, code=facts.code)
        found.append(event)
    return found


def _print(one: _Explanation) -> None:
    if one.facts:
        print_wrapped(_tell_job(one.facts))
    for sentence in tell_groups(one.doing):
        print_wrapped(f"  {sentence}")
    if one.verdict:
        print_wrapped(one.verdict.sentence)
    if one.mismatch:
        _print_mismatch(one.mismatch)
    diagnosis = one.diagnosis
    if diagnosis.main:
        _print_main(diagnosis)
    elif not one.verdict and not one.mismatch and not one.network.slow:
        print_wrapped(_tell_nothing(one))
    for title, groups in (("Also", diagnosis.others), ("Then", diagnosis.followed), ("Perhaps", diagnosis.hints)):
        for group in groups[:8]:
            print_wrapped(f"{title}: {_tell_group(group)} {_where(group)}")
    if one.network.used:
        print_wrapped(f"Network: {one.network.used}")
    print_findings(one.network.findings)
    for sentence in dict.fromkeys(one.unknown):
        print_wrapped(f"Unknown: {sentence}")


def _tell_job(facts: JobFacts) -> str:
    ended = f", {explain_status(facts.code, facts.signal)}" if facts.code or facts.signal else ""
    where = f" on {facts.nodes}" if facts.nodes else ""
    time = f", {facts.elapsed} of {facts.limit}" if facts.elapsed and facts.limit else ""
    reason = f" ({facts.reason})" if facts.reason else ""
    name = f" ({facts.name})" if facts.name else ""
    return f"job {facts.number}{name}: {facts.state}{reason}{where}{time}{ended}"


def _tell_nothing(one: _Explanation) -> str:
    if one.facts and one.facts.waiting:
        return "It has not started yet."
    if one.diagnosis.followed:
        return "No rank says why it failed; below is what the others said."
    if one.facts and one.facts.running:
        return "Its output shows no error."
    return "Nothing known was found in the output." if one.files else "There is no output to read."


def _tell_group(group: Group) -> str:
    who = f"{group.who}: " if group.who else ""
    place = f", at {group.first.place}" if group.first.place else ""
    return f"{who}{group.title}{place}"


def _where(group: Group) -> str:
    first = group.first
    times = f", {group.count} lines" if group.count > 1 else ""
    return f"({first.log}:{first.line}{times})" if first.line else f"({first.text})"


def _print_main(diagnosis: Diagnosis) -> None:
    main = diagnosis.main
    if main is None:
        return
    words = {CAUSE: "Cause", SYMPTOM: "Seen"}
    print_wrapped(f"{words.get(main.kind, 'Perhaps')}: {_tell_group(main)}")
    if main.first.line:
        print_text(f"    {main.first.log}:{main.first.line}: {main.first.text}")
    for (number, name), ranks in diagnosis.collectives if len(diagnosis.collectives) > 1 else ():
        print_wrapped(f"    {show_ranks(ranks)}: in {name}, number {number}")
    if diagnosis.silent and main.kind == SYMPTOM:
        print_wrapped(f"    {show_ranks(diagnosis.silent)} did not report it: look there first")
    if main.first.ending:
        print_wrapped(f"    {main.first.ending.text}")
    if main.cure:
        print_wrapped(f"To fix it: {main.cure}")
    if main.first.ending:
        print_text(f"See {main.first.ending.source}")


def _print_mismatch(one: Mismatch) -> None:
    print_wrapped(f"Cause: the ranks of group {one.group} differ in collective {one.number}:")
    for call, ranks in one.calls:
        print_wrapped(f"  {show_ranks(ranks)}: {call}")
    for rank, last in one.missing:
        print_wrapped(f"  {show_ranks([rank])}: has not called it; its last one is {last}")


def _print_as_json(one: _Explanation) -> None:
    diagnosis = one.diagnosis
    print_json(
        job=_job_values(one.facts) if one.facts else None,
        failed=one.failed,
        cause=_group_values(diagnosis.main) if diagnosis.main else None,
        others=[_group_values(group) for group in diagnosis.others],
        followed=[_group_values(group) for group in diagnosis.followed],
        hints=[_group_values(group) for group in diagnosis.hints],
        silent=list(diagnosis.silent),
        doing=[asdict(group) for group in one.doing],
        verdict=one.verdict.sentence if one.verdict else "",
        mismatch=_mismatch_values(one.mismatch) if one.mismatch else None,
        network={**asdict(one.network), "findings": finding_values(one.network.findings)},
        files=list(one.files),
        unknown=list(dict.fromkeys(one.unknown)),
    )


def _job_values(facts: JobFacts) -> dict[str, Any]:
    return {**asdict(facts), "steps": [asdict(step) for step in facts.steps]}


def _group_values(group: Group) -> dict[str, Any]:
    first = group.first
    return {
        "kind": group.kind,
        "rule": group.rule,
        "title": group.title,
        "ranks": list(group.ranks),
        "host": first.host,
        "place": first.place,
        "file": first.log,
        "line": first.line,
        "text": first.text,
        "count": group.count,
        "cure": group.cure,
        "source": first.ending.source if first.ending else "",
    }


def _mismatch_values(one: Mismatch) -> dict[str, Any]:
    calls = [{"call": call, "ranks": list(ranks)} for call, ranks in one.calls]
    missing = [{"rank": rank, "last": last} for rank, last in one.missing]
    return {"group": one.group, "number": one.number, "calls": calls, "missing": missing}
