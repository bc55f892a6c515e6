"""Answers of programs that a step starts on nodes: each a JSON object in lines `hpcmod SENDER NUMBER/COUNT TEXT|`.

srun may mix up lines of more than 1,024 bytes, so each line is short. All other lines are messages for people.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_PIECE = re.compile(r"hpcmod (\S{1,255}) (\d{1,6})/(\d{1,6}) (.*)\|")
_MESSAGES = 200  # lines that are kept; a broken step may print one per task


@dataclass(frozen=True)
class TaskAnswer:
    """What one task found."""

    values: Mapping[str, Any]
    arrived: float
    """Time at which its last line arrived, in seconds since 1970."""


class AnswerLines:
    """Lines of a step, put together by sender: a rank or a host."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        """Other lines that the step printed, e.g. errors of the scheduler."""
        self._pieces: dict[str, dict[int, str]] = {}
        self._last: dict[str, tuple[int, float]] = {}

    def add(self, line: str, now: float = 0.0) -> None:
        """Add a line, which arrived now, in seconds since 1970."""
        piece = _PIECE.fullmatch(line)
        if piece:
            self._pieces.setdefault(piece[1], {})[int(piece[2])] = piece[4]
            self._last[piece[1]] = int(piece[3]), now
        elif len(self.messages) < _MESSAGES:
            self.messages.append(line)

    def answers(self) -> Iterator[TaskAnswer]:
        """Yield the answers that are complete, by rank."""
        for sender, pieces in sorted(self._pieces.items(), key=lambda found: (len(found[0]), found[0])):
            count, arrived = self._last[sender]
            try:
                values = json.loads("".join(pieces[number] for number in range(1, count + 1)))
            except (KeyError, ValueError, RecursionError):
                continue
            if isinstance(values, dict):
                yield TaskAnswer(values, arrived)
