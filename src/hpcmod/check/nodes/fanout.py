"""Run a small Python program on all tasks of one job step, and collect what it finds.

The program prints lines such as `hpcmod RANK NUMBER/COUNT TEXT|`; the texts of one rank together are one JSON object.
srun may mix up lines of more than 1,024 bytes, so each line is short. All other lines are messages for people.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcmod.process import follow

_PIECE = re.compile(r"hpcmod (\d{1,7}) (\d{1,6})/(\d{1,6}) (.*)\|")
_MESSAGES = 200  # lines that are kept; a broken step may print one per task


@dataclass(frozen=True)
class TaskAnswer:
    """What one task found."""

    rank: int
    values: Mapping[str, Any]
    arrived: float
    """Time at which its last line arrived, in seconds since 1970."""


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
    collected = _Collected()
    status = follow(
        [*step, "python3", "-c", program, *words],
        log=Path(os.devnull),
        env=_host_environment(environ),
        cwd=Path.cwd(),
        on_line=collected.add,
        tied=True,
    )
    return TaskAnswers(collected.answers(), tuple(collected.messages), status)


def _host_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which python3 is the host's, not the wrapper of a loaded module."""
    wrappers = f"{environ.get('CONTAINERROOT', '')}/bin"
    path = ":".join(place for place in environ.get("PATH", "").split(":") if place != wrappers)
    return {**environ, "PATH": path}


class _Collected:
    """Lines of a step, put together by rank."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self._pieces: dict[int, dict[int, str]] = {}
        self._counts: dict[int, int] = {}
        self._arrived: dict[int, float] = {}

    def add(self, line: str) -> None:
        piece = _PIECE.fullmatch(line)
        if not piece:
            self.messages += [line] if len(self.messages) < _MESSAGES else []
            return
        rank, number, count = int(piece[1]), int(piece[2]), int(piece[3])
        self._pieces.setdefault(rank, {})[number] = piece[4]
        self._counts[rank] = count
        self._arrived[rank] = time.time()

    def answers(self) -> tuple[TaskAnswer, ...]:
        return tuple(filter(None, map(self._answer_of, sorted(self._pieces))))

    def _answer_of(self, rank: int) -> TaskAnswer | None:
        """Return the answer of a task; None if a part of it is missing or it is not an object."""
        pieces = self._pieces[rank]
        try:
            values = json.loads("".join(pieces[number] for number in range(1, self._counts[rank] + 1)))
        except (KeyError, ValueError, RecursionError):
            return None
        return TaskAnswer(rank, values, self._arrived[rank]) if isinstance(values, dict) else None
