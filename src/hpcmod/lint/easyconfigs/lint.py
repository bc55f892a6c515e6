"""Find the mistakes in easyconfigs of containers: each with its line, the rule, and a cure."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from pathlib import Path

from hpcmod.core.errors import HpcmodError
from hpcmod.core.values.finding import FAIL, Finding
from hpcmod.lint.easyconfigs import rules
from hpcmod.lint.easyconfigs.rules import LintContext, fault

_CONTAINER = re.compile(r"^\s*easyblock\s*=\s*['\"]Container|\.sif\b|\bdocker://|\boras://", re.MULTILINE)

RULES = tuple(rule for name, rule in vars(rules).items() if name.startswith("rule_"))


def installs_a_container(text: str) -> bool:
    """Return whether an easyconfig installs a container, or cannot be read; others are not ours to judge."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return _CONTAINER.search(text) is not None


def lint_easyconfig(text: str, path: Path, *, exists: Callable[[str], bool] = os.path.lexists) -> tuple[Finding, ...]:
    """Find the mistakes in an easyconfig, in the order of its lines: it is read, never run.

    `exists` returns whether a path exists on this machine.
    """
    try:
        recipe = LintContext.at(text, path, exists)
    except HpcmodError as err:
        message = err.message.removeprefix(f"{path}: ")
        return (fault(1, "does-not-load", FAIL, message, "EasyBuild will refuse it as well."),)
    findings = {finding for rule in RULES for finding in rule(recipe)}
    return tuple(sorted(findings, key=lambda finding: (finding.line, finding.rule, finding.found)))
