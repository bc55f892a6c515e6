"""Print findings for people or as JSON, and exit with the matching status."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from hpcmod.core.cli.output import print_json, print_text, print_wrapped
from hpcmod.core.values.finding import FAIL, UNKNOWN, Finding


@dataclass(frozen=True)
class Findings:
    """What checks found."""

    findings: tuple[Finding, ...]


def show_findings(findings: Iterable[Finding], *, as_json: bool, fail_code: int = 1) -> NoReturn:
    """Print findings, and exit with `fail_code` if one of them is a failure, else with 0."""
    listed = tuple(findings)
    if as_json:
        print_json(Findings(listed))
    else:
        print_findings(listed)
    sys.exit(fail_code if any(finding.level == FAIL for finding in listed) else 0)


def print_findings(findings: Sequence[Finding]) -> None:
    """Print findings for people: level, subject and result, then the cure on a line of its own.

    A finding about a line of a file begins with FILE:LINE, as the messages of compilers do, and is never wrapped.
    """
    width = len(UNKNOWN if any(finding.level == UNKNOWN for finding in findings) else FAIL)
    for finding in findings:
        if finding.line:
            print_text(
                f"{finding.subject}:{finding.line}: {finding.level}: {finding.rule}: {finding.found}".replace("\n", "?")
            )
            cure = f"    {finding.cure}"
        else:
            print_wrapped(f"{finding.level:{width}} {finding.subject}: {finding.found}", indent=width + 1)
            cure = f"{'':{width}} {finding.cure}"
        if finding.cure:
            print_wrapped(cure, indent=width + 1)
