"""Rules for the scripts that an easyconfig writes after the installation, by `cat >FILE <<EOF` in postinstallcmds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hpcmod.check.easyconfigs.context import LintContext, fault
from hpcmod.check.jobs.reading.words import find_unclosed
from hpcmod.model.finding import FAIL, WARN, Finding

_DOCUMENT = re.compile(
    r"<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[^\n]*\n(?P<body>.*?)(?:\n(?P=end)\b|\Z)", re.DOTALL
)
_SHELL = re.compile(r"\s*#![^\n]*\b(?:ba)?sh\b")
_ESCAPE = re.compile(r"\\([$`\\])")
_ESCAPED_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)+\$[\w({]")
_SAYS_ERROR = re.compile(
    r"\b(?:echo|printf)\b.*(?:>&2|\b(?:error|cannot|could not|not found|failed|must|no such|invalid|missing)\b)",
    re.IGNORECASE,
)
_BARE_EXIT = re.compile(r"(?:^|[;{]|&&)\s*exit\s*(?:$|[;}])")


@dataclass(frozen=True)
class _Script:
    document: str
    """As it stands between `<<EOF` and `EOF`."""
    is_expanded: bool
    """Whether the shell that writes the script expands variables in it."""

    @property
    def text(self) -> str:
        """Return the script that is written, with its variables unexpanded."""
        return _ESCAPE.sub(r"\1", self.document) if self.is_expanded else self.document


def check_scripts(look: LintContext) -> Iterator[Finding]:
    """Yield the mistakes in scripts for sh and bash."""
    for command in look.strings("postinstallcmds"):
        for found in _DOCUMENT.finditer(command):
            script = _Script(found["body"], not found["quote"])
            if _SHELL.match(script.document):
                yield from _check(look, script)


def _check(look: LintContext, script: _Script) -> Iterator[Finding]:
    lines = script.text.split("\n")
    unclosed = find_unclosed(script.text)
    if unclosed:
        what = "a quote or bracket that opens here is never closed: the script stops with a syntax error"
        yield fault(_line(look, lines[unclosed - 1]), "unclosed-quote", FAIL, what, "Close it.")
    for line in script.document.split("\n") if script.is_expanded else ():
        if _ESCAPED_BACKSLASH.search(line):
            what = "the backslash before the $ is escaped, so the variable is expanded when the script is written"
            yield fault(_line(look, line), "escaped-twice", FAIL, what, "Escape the $ once.")
    for before, line in zip(["", *lines], lines):
        if _BARE_EXIT.search(line) and (_SAYS_ERROR.search(line) or _SAYS_ERROR.search(before)):
            what = "exit without a number after a message returns 0: a job goes on as if nothing had failed"
            yield fault(_line(look, line), "exit-status", WARN, what, "Write exit 1.")


def _line(look: LintContext, line: str) -> int:
    """Return the line of the easyconfig with a line of a script, whose escapes it may write in another way."""
    words = max(re.split(r"[\\$]+", line.strip()), key=len)
    return look.line(words) if words else look.assigned("postinstallcmds")
