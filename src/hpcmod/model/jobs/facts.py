"""What a scheduler tells about one job: its state, exit code, output files and steps."""

from __future__ import annotations

from dataclasses import dataclass


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
class JobFacts:
    """One job."""

    number: str
    name: str
    state: str
    """E.g. RUNNING, FAILED, OUT_OF_MEMORY."""
    reason: str
    """Why it waits or ended, in the scheduler's words; empty if it gives none."""
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
    output: str
    """Path of the file with its output; empty if unknown."""
    error: str
    """Path of the file with its stderr; empty if unknown, often the same."""
    directory: str
    running: bool
    waiting: bool
    """Whether it has not started."""
    steps: tuple[StepFacts, ...] = ()
    """Those of the accounting; empty without it."""
