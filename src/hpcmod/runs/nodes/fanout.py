"""Run a small Python program on all tasks of one job step, and collect what it finds."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.process import follow
from hpcmod.runs.values.nodes.answers import AnswerLines, TaskAnswer


@dataclass(frozen=True)
class TaskAnswers:
    """What all tasks of a step found."""

    answers: tuple[TaskAnswer, ...]
    """By rank; without tasks that did not answer."""
    messages: tuple[str, ...]
    """Other lines that the step printed, e.g. errors of the scheduler."""
    status: int
    """Exit status of the command that started the step."""


def ask_tasks(step: Sequence[str], program: str, *words: str, environ: Mapping[str, str]) -> TaskAnswers:
    """Run a program on all tasks of a step, with the host's Python, and return the answers.

    The program is an argument rather than a file, so that no task reads from a shared directory.

    Parameters
    ----------
    step
        Command that starts the tasks, e.g. srun with its options. It gets SIGTERM when this process ends.
    program
        Text of a Python program, which must run with Python 3.6.
    words
        Arguments of the program.

    Raises
    ------
    LackingError
        If the command that starts tasks is not on this machine.
    """
    lines = AnswerLines()
    status = follow(
        [*step, "python3", "-I", "-S", "-c", program, *words],
        log=Path(os.devnull),
        env=_host_environment(environ),
        cwd=Path.cwd(),
        on_line=lambda line: lines.add(line, time.time()),
        tied=True,
    )
    return TaskAnswers(tuple(lines.answers()), tuple(lines.messages), status)


def _host_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which python3 is the host's, not the wrapper of a loaded module."""
    wrappers = f"{environ.get('CONTAINERROOT', '')}/bin"
    path = ":".join(place for place in environ.get("PATH", "").split(":") if place != wrappers)
    return {**environ, "PATH": path}
