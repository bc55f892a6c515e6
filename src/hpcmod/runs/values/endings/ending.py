"""Known endings: texts that a problem leaves in the output of a run, what they mean, and what helps.

Their files have the keys of advisories where both have them; a table of the file is one ending.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.values.documents import load_toml
from hpcmod.machine.values import checks as check

CAUSE, SYMPTOM, CONSEQUENCE, HINT = "cause", "symptom", "consequence", "hint"
"""cause: explains why a run ended; symptom: says that it did not go on, but not why; consequence: another rank's
failure as seen by this one; hint: a problem that does not always end a run."""

KINDS = (CAUSE, SYMPTOM, CONSEQUENCE, HINT)
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SHORTEST = 6  # characters between asterisks: a shorter pattern would match almost every line
_MOST_STARS = 3


@dataclass(frozen=True)
class Ending:
    """One known ending. Clean its text before showing it: a site may have written it."""

    name: str
    kind: str
    """One of `KINDS`."""
    title: str
    text: str
    lines: tuple[str, ...]
    """Patterns, one of which must be in the line; `*` is any text within the line."""
    without: tuple[str, ...] = ()
    """Patterns of lines that do not count."""
    states: tuple[str, ...] = ()
    """States of a job that say the same, as the scheduler names them."""
    cure: str = ""
    source: str = ""
    """Where it is explained by those who know: an https address."""
    set: tuple[tuple[str, str], ...] = ()
    unset: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        """Return what to do, with the variables to set or unset."""
        variables = [*(f"unset {name}" for name in self.unset), *(f"export {name}={value}" for name, value in self.set)]
        return " ".join(part for part in (self.cure, f"({'; '.join(variables)})" if variables else "") if part)


def parse_endings(text: str, where: str) -> tuple[Ending, ...]:
    """Parse a file of known endings and check all of it.

    `where`: The file, for messages.

    Raises BadInputError, which lists every error in the file with its key.
    """
    endings, faults = [], []
    for name, table in load_toml(text, f"known endings {where}").items():
        values: dict[str, Any] = {}
        wrong = list(_check_table(name, table, values))
        faults += [f"{name}: {fault}" for fault in wrong]
        endings += [] if wrong else [Ending(name, **values)]
    if faults:
        listed = "\n".join(f"  {fault}" for fault in faults)
        raise BadInputError(
            f"known endings {where}:\n{listed}", "Fix these keys; docs/how-to/known-endings.md has them."
        )
    return tuple(endings)


def _check_table(name: str, table: Any, values: dict[str, Any]) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield "a name has lower-case letters, digits and hyphens"
    if not isinstance(table, dict):
        yield f"must be a table: [{name}]"
        return
    flat = dict(_flatten(table))
    for key, value in flat.items():
        if key not in KEYS:
            yield f"{key}: unknown key; known are {', '.join(KEYS)}"
            continue
        field, read = KEYS[key]
        try:
            values[field] = read(value)
        except (ValueError, HpcmodError) as err:
            yield f"{key}: {err}"
    yield from (f"{key}: missing" for key in _REQUIRED if key not in flat)


def _flatten(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        inner = key in ("match", "cure") and isinstance(value, dict)
        yield from ((f"{key}.{below}", item) for below, item in value.items()) if inner else [(key, value)]


def _patterns(value: Any) -> tuple[str, ...]:
    patterns = check.texts(value)
    for pattern in patterns:
        if pattern.count("*") > _MOST_STARS:
            raise ValueError(f"{pattern!r} has more than {_MOST_STARS} asterisks")
        if max(map(len, pattern.split("*"))) < _SHORTEST:
            raise ValueError(f"{pattern!r} has no part of {_SHORTEST} characters between asterisks")
    return patterns


def _some_patterns(value: Any) -> tuple[str, ...]:
    if not value:
        raise ValueError("must not be empty")
    return _patterns(value)


_variable = check.matching(r"[A-Za-z_][A-Za-z0-9_]*", "a valid variable name")

KEYS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "kind": ("kind", check.one_of(*KINDS)),
    "title": ("title", check.check_text),
    "text": ("text", check.check_text),
    "source": ("source", check.matching(r"https://[!-~]{3,500}", "a URL that begins with https://")),
    "match.lines": ("lines", _some_patterns),
    "match.without": ("without", check.texts),
    "match.states": ("states", check.texts),
    "cure.text": ("cure", check.check_text),
    "cure.set": ("set", check.texts_by(_variable)),
    "cure.unset": ("unset", check.list_of(_variable)),
}
"""For each key of a table: the field of Ending and the check of its value."""

_REQUIRED = ("kind", "title", "text", "match.lines")


_OF_RANK = re.compile(r"(conda-python-distributed: )rank \d{1,7}: ")
"""Before the message of a run script that refuses to start in another rank than 0."""


def line_has(line: str, pattern: str) -> bool:
    """Return whether a line contains the parts of a pattern in their order."""
    at = 0
    for part in pattern.split("*"):
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def match_length(line: str, ending: Ending) -> int:
    """Return the length of the longest pattern that is in a line; 0 if the line is no sign of the ending."""
    line = _OF_RANK.sub(r"\1", line)
    lengths = [len(pattern) for pattern in ending.lines if line_has(line, pattern)]
    return max(lengths) if lengths and not any(line_has(line, pattern) for pattern in ending.without) else 0


def find_ending(line: str, endings: Iterable[Ending]) -> Ending | None:
    """Return the ending of which a line is a sign, that with the longest pattern; None if there is none."""
    longest = max(endings, key=lambda ending: match_length(line, ending), default=None)
    return longest if longest and match_length(line, longest) else None
