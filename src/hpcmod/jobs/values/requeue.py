"""Jobs that are requeued shortly before their time limit, to resume from a checkpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError
from hpcmod.machine.values.site import BY_TASKS

MOST_REQUEUES = 10
"""How often a batch script requeues its job."""

_LONGEST = 65535
"""Most seconds before the time limit that sbatch accepts (sbatch(1), --signal)."""


@dataclass(frozen=True)
class Requeue:
    """What a batch script does shortly before its time limit."""

    signal: str
    """USR1 or USR2, sent to the ranks so that they write a checkpoint and exit."""
    seconds: int
    """Seconds before the time limit."""


def parse_requeue(text: str) -> Requeue:
    """Parse SIGNAL@SECONDS.

    Raises BadInputError if it has another form, or programs cannot use the signal for a checkpoint.
    """
    match = re.fullmatch(r"(?:SIG)?([A-Z0-9]+)@(\d+)", text.upper())
    if not match or not 0 < int(match[2]) <= _LONGEST:
        raise BadInputError(
            f"--requeue-on {text!r} is not SIGNAL@SECONDS",
            "Write --requeue-on USR1@120 for two minutes before the end.",
        )
    if match[1] not in ("USR1", "USR2"):
        raise BadInputError(
            f"--requeue-on {text}: {match[1]} would end {BY_TASKS} and launchers, not only the ranks",
            f"Write --requeue-on USR1@{match[2]}, and write the checkpoint on USR1.",
        )
    return Requeue(match[1], int(match[2]))
