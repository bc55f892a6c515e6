"""What Slurm tells about one job: its state, exit code, output files and steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcmod.core.values.json_form import SPLICED
from hpcmod.jobs.values.allocation import whole_number

ACCOUNTED = (
    *("JobID", "JobName", "State", "ExitCode", "MaxRSS", "NodeList", "Elapsed", "Timelimit", "NTasks", "WorkDir"),
)
"""The columns that are asked of sacct."""

_AS_CONTROL = {
    "JobID": "JobId",
    "State": "JobState",
    "Elapsed": "RunTime",
    "Timelimit": "TimeLimit",
    "NTasks": "NumTasks",
}
_PATHS = ("StdOut", "StdErr", "StdIn", "WorkDir", "Command", "Comment")


@dataclass(frozen=True)
class StepFacts:
    """One step of a job, as the accounting recorded it."""

    name: str
    """Job ID and step, e.g. 4711.0."""
    state: str
    code: int
    signal: int
    memory: str
    """Largest memory of a task, e.g. 4096K; empty if unknown."""
    nodes: str


@dataclass(frozen=True)
class JobFiles:
    """Where a job runs, and what it writes; empty if unknown."""

    output: str = ""
    """Path of the file with its output."""
    error: str = ""
    """Path of the file with its stderr, often the same."""
    directory: str = ""


@dataclass(frozen=True)
class JobFacts:
    """One job."""

    number: str
    name: str
    state: str
    """E.g. RUNNING, FAILED, OUT_OF_MEMORY."""
    reason: str
    """Why it waits or ended, in Slurm's words; empty if it gives none."""
    code: int
    signal: int
    nodes: str
    """List of hosts; empty if unknown."""
    node_count: int
    """0: unknown."""
    tasks: int
    """0: unknown."""
    elapsed: str
    limit: str
    files: JobFiles = field(metadata=SPLICED)
    running: bool
    waiting: bool
    """Whether it has not started."""
    steps: tuple[StepFacts, ...] = ()
    """Those of the accounting; empty without it."""
    requeued: int = 0
    """How often it went back into the queue, as far as known."""
    begins: str = ""
    """Time at which it started, or is expected to; empty if unknown."""


def parse_job_facts(control: str, accounting: str) -> JobFacts | None:
    """Return what scontrol and sacct know of a job; scontrol forgets a job some minutes after its end.

    `control`: Output of `scontrol show job`; empty without an answer.
    `accounting`: Output of sacct with the columns ACCOUNTED; empty without an answer.
    """
    rows = [line.split("|") for line in accounting.splitlines()]
    recorded = [dict(zip(ACCOUNTED, row)) for row in rows if len(row) == len(ACCOUNTED)]
    job = next((row for row in recorded if "." not in row["JobID"]), {})
    values = {**_of_accounting(job), **_read_lines(control)}
    if not values.get("JobState"):
        return None
    code, signal = _status(values.get("ExitCode", ""))
    state = values["JobState"]
    return JobFacts(
        number=values.get("JobId", ""),
        name=values.get("JobName", ""),
        state=state,
        reason=_said(values.get("Reason", "")),
        code=code,
        signal=signal,
        nodes=_said(values.get("NodeList", "")),
        node_count=whole_number(values.get("NumNodes", "")),
        tasks=whole_number(values.get("NumTasks", "")),
        elapsed=_said(values.get("RunTime", "")),
        limit=_said(values.get("TimeLimit", "")),
        files=JobFiles(*(_said(values.get(name, "")) for name in ("StdOut", "StdErr", "WorkDir"))),
        running=state in ("RUNNING", "SUSPENDED", "STOPPED"),
        waiting=state in ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD"),
        steps=tuple(_read_step(row) for row in recorded if "." in row["JobID"]),
        requeued=whole_number(values.get("Restarts", "")),
        begins=_said(values.get("StartTime", "")),
    )


def _read_lines(text: str) -> dict[str, str]:
    """Return the values of `scontrol show job`; those with a path have a line of their own and may contain spaces."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and key in _PATHS:
            values[key] = value
        else:
            values.update(re.findall(r"(\w+)=(\S*)", line))
        name = re.search(r"\bJobName=(.*)", line)
        values.update({"JobName": name[1]} if name else {})
    return values


def _of_accounting(row: Mapping[str, str]) -> dict[str, str]:
    """Return a row of sacct under the names of scontrol."""
    values = {_AS_CONTROL.get(key, key): value for key, value in row.items()}
    return {**values, "JobState": values["JobState"].split(" ")[0]} if row else {}


def _read_step(row: Mapping[str, str]) -> StepFacts:
    code, signal = _status(row["ExitCode"])
    return StepFacts(row["JobID"], row["State"].split(" ")[0], code, signal, row["MaxRSS"], row["NodeList"])


def _status(text: str) -> tuple[int, int]:
    """Return exit code and signal of a value such as 0:9."""
    code, _, signal = text.partition(":")
    return whole_number(code), whole_number(signal)


def _said(value: str) -> str:
    return "" if value in ("(null)", "None", "N/A", "Unknown", "None assigned") else value
