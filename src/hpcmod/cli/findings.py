"""Print findings for people or as JSON, and exit with the matching status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import NoReturn

from hpcmod.check.doctor import FAIL, Finding
from hpcmod.cli.output import print_data, print_wrapped

JSON_VERSION = 1


def show_findings(findings: Iterable[Finding], *, as_json: bool, fail_code: int = 1) -> NoReturn:
    """Print findings, and exit with `fail_code` if one of them is a failure, else with 0."""
    listed = list(findings)
    if as_json:
        print_data(json.dumps({"version": JSON_VERSION, "findings": [asdict(one) for one in listed]}, indent=1))
    else:
        print_findings(listed)
    sys.exit(fail_code if any(one.verdict == FAIL for one in listed) else 0)


def print_findings(findings: Iterable[Finding]) -> None:
    """Print findings for people, each with its cure below it."""
    for finding in findings:
        print_wrapped(f"{finding.verdict:4} {finding.subject}: {finding.found}", indent=5)
        if finding.cure:
            print_wrapped(f"     {finding.cure}", indent=5)
