from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.check.easyconfigs.context import LintContext
from hpcmod.check.easyconfigs.scripts import check_scripts
from hpcmod.model.finding import Finding

QUOTE = "'"


def check(script: str, end: str = "EOF", *, shebang: str = "#!/bin/bash") -> list[Finding]:
    """Check an easyconfig that writes a script; the first line after the shebang is line 5."""
    text = (
        "easyblock = 'MakeCp'\npostinstallcmds = [r'''\n"
        f"cat >%(installdir)s/bin/x <<{end}\n{shebang}\n{script}\n{end.strip(QUOTE)}\n''']\n"
    )
    return list(check_scripts(LintContext.at(text, Path("x.eb"), lambda _: True)))


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        (r'echo "\$1"', ""),
        (r'echo "\$1', "unclosed-quote"),
        (r"echo \$HOME", ""),
        (r"echo \\$HOME", "escaped-twice"),
        (r"echo \\\$HOME", ""),
        (r"sed 's|a\\$||'", ""),
        ("echo 'Error: no squashfs'; exit", "exit-status"),
        ("echo 'cannot start' >&2\n    exit", "exit-status"),
        ("echo 'Usage: x'; exit", ""),
        ("echo 'Error: no squashfs'; exit 1", ""),
    ],
)
def test_mistakes_in_scripts_are_found(script: str, rule: str) -> None:
    found = check(script)
    assert [one.rule for one in found] == [rule] * bool(rule)
    assert all(one.line == 5 + script.count("\n") for one in found)


def test_a_quoted_document_is_not_expanded() -> None:
    assert check(r"echo \\$HOME", end="'EOF'") == []


def test_programs_in_other_languages_are_not_checked() -> None:
    assert check("print('it')  # don't", shebang="#!/usr/bin/env python3") == []


def test_a_script_without_an_end_is_checked() -> None:
    text = 'postinstallcmds = ["cat >x <<EOF \\n#!/bin/sh\\necho \'a\\n"]\n'
    assert [one.rule for one in check_scripts(LintContext.at(text, Path("x.eb"), lambda _: True))] == ["unclosed-quote"]
