"""Result of a check, the same for every command that checks: doctor, compat, lint, verify and others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OK, WARN, FAIL, UNKNOWN = "ok", "warn", "fail", "unknown"
"""warn: it may work poorly or surprise; fail: it will not work; unknown: a fact that the check needs is not available.

Only a failure changes an exit code.
"""


@dataclass(frozen=True)
class Finding:
    """Result of one check of one subject."""

    level: str
    """ok, warn, fail or unknown."""
    rule: str
    """Name of the check, e.g. `runtime` or `mpi-family`; a script can rely on it."""
    found: str
    cure: str = ""
    """Command or edit that helps."""
    subject: str = ""
    """What was checked, for people, e.g. a file or a module with its check; default: the name of the check."""
    line: int = 0
    """Line of the file that `subject` names, counted from 1; 0 if the finding is not about a line."""

    def __post_init__(self) -> None:
        if not self.subject:
            object.__setattr__(self, "subject", self.rule)


def worst_level(findings: Iterable[Finding]) -> str:
    """Return fail or warn if a finding has that level, else ok: what is unknown does not count."""
    levels = {finding.level for finding in findings}
    return next((level for level in (FAIL, WARN) if level in levels), OK)
