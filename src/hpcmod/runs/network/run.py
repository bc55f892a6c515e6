"""Run the all-reduce on the ranks of a step, and read what they and their libraries print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hpcmod.core.process import follow
from hpcmod.runs.network.program import DEBUG
from hpcmod.runs.values.endings.ending import Ending
from hpcmod.runs.values.logs.allreduce import Results
from hpcmod.runs.values.logs.reading import Reading, read_line

_KEPT = 60  # last lines of output that are kept for people


@dataclass
class Run:
    """What a run printed."""

    reading: Reading
    results: Results = field(default_factory=Results)
    said: list[str] = field(default_factory=list)
    """The last lines that are neither a report nor a line of a library that the log reader knows."""
    status: int = 0


def run_allreduce(step: Sequence[str], endings: Sequence[Ending], *, environ: Mapping[str, str]) -> Run:
    """Run a step to its end, and read its output as it arrives.

    `step`: Command that starts all ranks. It gets SIGTERM when this process ends.
    `endings`: Known problems to look for in its output.

    Raises LackingError if the command is not on this machine.
    """
    run = Run(Reading(endings))
    with follow(step, env=environment(environ), tied=True) as program:
        for line in program.lines():
            if run.results.add(line):
                continue
            before = run.reading.lines
            read_line(run.reading, line)
            if run.reading.lines == before and line.strip():
                run.said = [*run.said, line][-_KEPT:]
    run.status = program.status
    return run


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the step: with it, libraries say which network they use."""
    prefixes = ("", "APPTAINERENV_", "SINGULARITYENV_")
    return {**environ, **{f"{prefix}{name}": value for name, value in DEBUG.items() for prefix in prefixes}}
