from __future__ import annotations

import ast
import re

from hpcmod.lint.jobs.lint import RULES
from tests.stack import CHECKOUT


def test_every_rule_of_the_linter_is_described_once() -> None:
    """For easyconfigs, rules are the second arguments of calls of `fault`."""
    page = (CHECKOUT / "docs/reference/lint-rules.md").read_text(encoding="utf-8")
    batch, _, easyconfigs = page.partition("## Easyconfigs")
    rules = re.compile(r"^\| `([\w-]+)` \|", re.MULTILINE)
    assert sorted(rules.findall(batch)) == sorted(RULES)
    files = (CHECKOUT / "src/hpcmod/lint/easyconfigs").glob("*.py")
    calls = [node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    named = {ast.literal_eval(call.args[1]) for call in calls if getattr(call.func, "id", "") == "fault"}
    assert sorted(rules.findall(easyconfigs)) == sorted(named)
