"""Variables in the values of foreign recipes: `${NAME}`, and the operators that Compose files have in common with bash.

Sources, read 2026-11: https://docs.cscs.ch/software/container-engine/edf/ ("Environment variable expansion") and
https://docs.docker.com/reference/compose-file/interpolation/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcmod.errors import BadInputError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])(.*))?", re.DOTALL)
_DEEPEST = 20  # levels of ${A:-${B:-...}}


@dataclass(frozen=True)
class Variables:
    """Values of variables, and which forms of `$` refer to them."""

    values: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    """Whether a variable that is not listed is unset; if not, its value is unknown, and a default cannot be used."""
    bare: bool = True
    """Whether `$NAME` is a variable, as `${NAME}` always is."""

    def substitute(self, text: str, depth: int = 0) -> str:
        """Return a text with its variables replaced, and `$` for `$$`.

        Raises
        ------
        BadInputError
            If a variable has no value here, or `${` does not start a variable.
        """
        if depth > _DEEPEST:
            raise BadInputError("variables are nested too deeply", "")
        out, at = [], 0
        while (found := text.find("$", at)) >= 0:
            out.append(text[at:found])
            piece, at = self._piece(text, found, depth)
            out.append(piece)
        return "".join([*out, text[at:]])

    def _piece(self, text: str, start: int, depth: int) -> tuple[str, int]:
        """Return what replaces the `$` at a position and what belongs to it, and where the rest of the text starts."""
        if text.startswith("$$", start):
            return "$", start + 2
        if text.startswith("${", start):
            end = _closing(text, start + 2)
            return self._braced(text[start + 2 : end], depth), end + 1
        name = _NAME.match(text, start + 1)
        if name is None:
            return "$", start + 1
        if not self.bare:
            raise BadInputError(f"${name[0]} is not a variable in this format: write ${{{name[0]}}}", "")
        return self._value(name[0]), name.end()

    def _braced(self, inner: str, depth: int) -> str:
        match = _BRACED.fullmatch(inner)
        if match is None:
            raise BadInputError(f"${{{inner[:60]}}} is not a variable that can be replaced", "")
        name, operator, word = match.groups()
        if not operator:
            return self._value(name)
        if name not in self.values and not self.complete:
            return self._value(name)
        value = self.values.get(name)
        given = bool(value) if operator.startswith(":") else value is not None
        if operator.endswith("+"):
            return self.substitute(word, depth + 1) if given else ""
        if given:
            return value or ""
        if operator.endswith("?"):
            raise BadInputError(f"${{{name}}} is not set: {word[:80]}", "")
        return self.substitute(word, depth + 1)

    def _value(self, name: str) -> str:
        if name in self.values:
            return self.values[name]
        raise BadInputError(f"depends on ${{{name}}}" if not self.complete else f"${{{name}}} is not set", "")


def _closing(text: str, start: int) -> int:
    """Return the position of the brace that ends a variable."""
    open_, at = 1, start
    for mark in re.finditer(r"\$\{|\}", text[start:]):
        open_ += -1 if mark[0] == "}" else 1
        at = start + mark.start()
        if open_ == 0:
            return at
    raise BadInputError(f"{text[start - 2 : start + 60]!r} has no closing brace", "")
