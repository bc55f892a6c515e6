"""Input of the rules for easyconfigs: the text, its variables, and the line of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcmod.core.values.finding import Finding
from hpcmod.modules.values.easyconfig_text import CONSTANTS, fill_values, templates_of
from hpcmod.modules.values.python_text import source_lines
from hpcmod.modules.values.static_values import read_static_values


def fault(line: int, rule: str, level: str, found: str, cure: str) -> Finding:
    """Return a finding about a line; a number below 1 is taken as 1."""
    return Finding(level, rule, found, cure, line=max(1, line))


@dataclass(frozen=True)
class LintContext:
    """An easyconfig, read once for all rules."""

    text: str
    path: Path
    values: Mapping[str, Any]
    """Its variables, as far as they are known without running it, with known templates filled in."""
    unknown: Mapping[str, str]
    exists: Callable[[str], bool]
    """Returns whether a path exists on this machine."""

    @classmethod
    def at(cls, text: str, path: Path, exists: Callable[[str], bool]) -> LintContext:
        """Read an easyconfig.

        Raises BadInputError if it is not Python.
        """
        read = read_static_values(text, str(path), constants=CONSTANTS)
        templates = templates_of(read.known)
        values = {name: fill_values(value, templates) for name, value in read.known.items()}
        return cls(text, path, values, read.unknown, exists)

    @property
    def is_ours(self) -> bool:
        """Return whether one of hpcmod's easyblocks installs it."""
        return str(self.values.get("easyblock", "")).startswith("Container")

    def string(self, name: str) -> str:
        """Return the value of a string variable; empty if it is not set."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def strings(self, name: str) -> tuple[str, ...]:
        """Return the strings of a list variable."""
        value = self.values.get(name)
        return tuple(text for text in value if isinstance(text, str)) if isinstance(value, (list, tuple)) else ()

    def table(self, name: str) -> Mapping[str, str]:
        """Return the strings of a dictionary variable."""
        value = self.values.get(name)
        items = value.items() if isinstance(value, dict) else ()
        return {key: text for key, text in items if isinstance(key, str) and isinstance(text, str)}

    def images(self) -> tuple[str, ...]:
        """Return how it names its image: a reference, or file names."""
        if self.string("image"):
            return (self.string("image"),)
        sources = self.values.get("sources")
        listed = sources if isinstance(sources, (list, tuple)) else ()
        names = (source.get("filename") if isinstance(source, dict) else source for source in listed)
        return tuple(name for name in names if isinstance(name, str))

    def assigned(self, name: str) -> int:
        """Return the line that assigns a variable."""
        lines = enumerate(source_lines(self.text), 1)
        return next((number for number, line in lines if re.match(rf"{name}\s*=[^=]", line)), 1)

    def line(self, words: str) -> int:
        """Return the number of the first line that contains the given words; 1 if none does."""
        return next((number for number, line in enumerate(source_lines(self.text), 1) if words in line), 1)
