"""Jobs that are requeued shortly before their time limit, to resume from a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hpcmod.errors import BadInputError

MOST_REQUEUES = 10
"""Default for the maximum number of requeues."""

_LONGEST = 65535
"""Range of seconds before the time limit that sbatch accepts (sbatch(1), --signal)."""


@dataclass(frozen=True)
class Requeue:
    """What a batch script does shortly before its time limit."""

    signal: str
    """USR1 or USR2, sent to the ranks so that they write a checkpoint and exit."""
    seconds: int
    """Seconds before the time limit."""
    limit: int
    """Maximum number of requeues."""

    @property
    def directives(self) -> tuple[tuple[str, str], ...]:
        """Return the sbatch options, and why they are there."""
        return (
            (f"--signal=B:{self.signal}@{self.seconds}", "sent to this script only, which signals the ranks"),
            ("--requeue", ""),
            ("--open-mode=append", "each run appends to the output of the previous one"),
        )


def parse_requeue(text: str, limit: int = MOST_REQUEUES) -> Requeue:
    """Parse SIGNAL@SECONDS.

    Raises
    ------
    BadInputError
        If it has another form, or programs cannot use the signal for a checkpoint.
    """
    match = re.fullmatch(r"(?:SIG)?([A-Z0-9]+)@(\d+)", text.upper())
    if not match or not 0 < int(match[2]) <= _LONGEST:
        raise BadInputError(
            f"--requeue-on {text!r} is not SIGNAL@SECONDS",
            "Write --requeue-on USR1@120 for two minutes before the end.",
        )
    if match[1] not in ("USR1", "USR2"):
        raise BadInputError(
            f"--requeue-on {text}: {match[1]} would end srun and launchers, not only the ranks",
            f"Write --requeue-on USR1@{match[2]}, and write the checkpoint on USR1.",
        )
    if limit < 1:
        raise BadInputError(f"--max-requeues {limit}: the job would never be requeued", "Ask for 1 or more.")
    return Requeue(match[1], int(match[2]), limit)


def check_signals(options: Sequence[str], requeue: Requeue | None) -> None:
    """Check that no sbatch option sends a signal to a batch script that does not expect it.

    Raises
    ------
    BadInputError
        Names the option to use instead.
    """
    for option in options:
        if requeue and option.startswith("--signal"):
            raise BadInputError(
                f"{option} and --requeue-on both set a signal, but sbatch accepts one", f"Leave out {option}."
            )
        match = re.match(r"--signal=R?B:R?(\w+)(@\d+)?", option)
        if match:
            raise BadInputError(
                f"{option} would end the batch script, which does not handle the signal",
                f"Write --requeue-on {match[1]}{match[2] or '@60'}, which lets the ranks write a checkpoint.",
            )
