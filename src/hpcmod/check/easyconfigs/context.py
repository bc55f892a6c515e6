"""What the rules for recipes look at: an easyconfig's text, what it assigns, and where each line of it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcmod.model.easyconfig_text import CONSTANTS, fill_templates, templates_of
from hpcmod.model.python_text import source_lines
from hpcmod.model.static_values import read_static_values

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class EasyconfigFault:
    """One mistake in a recipe."""

    line: int
    """Counted from 1."""
    rule: str
    level: str
    """error (it will fail, or install something else than it says) or warning."""
    what: str
    cure: str


def fault(line: int, rule: str, level: str, what: str, cure: str) -> EasyconfigFault:
    """Make a fault; its line is at least the first."""
    return EasyconfigFault(max(1, line), rule, level, what, cure)


def line_of(text: str, words: str) -> int:
    """Return the number of the first line that holds some words; 1 if none does."""
    return next((number for number, line in enumerate(source_lines(text), 1) if words in line), 1)


@dataclass(frozen=True)
class LintContext:
    """An easyconfig, read once for all rules."""

    text: str
    path: Path
    values: Mapping[str, Any]
    """What it assigns, as far as that is seen without running it; templates filled in where they are known."""
    unknown: Mapping[str, str]
    exists: Callable[[str], bool]
    """Says whether a path is there on this machine."""

    @classmethod
    def at(cls, text: str, path: Path, exists: Callable[[str], bool]) -> LintContext:
        """Read an easyconfig.

        Raises
        ------
        BadInputError
            If it is not Python.
        """
        read = read_static_values(text, str(path), constants=CONSTANTS)
        templates = templates_of(read.known)
        values = {name: _filled(value, templates) for name, value in read.known.items()}
        return cls(text, path, values, read.unknown, exists)

    @property
    def is_ours(self) -> bool:
        """Whether one of our easyblocks installs it."""
        return str(self.values.get("easyblock", "")).startswith("Container")

    def string(self, name: str) -> str:
        """Return a text that it assigns; empty if it does not."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def strings(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list that it assigns."""
        value = self.values.get(name)
        return tuple(one for one in value if isinstance(one, str)) if isinstance(value, (list, tuple)) else ()

    def table(self, name: str) -> Mapping[str, str]:
        """Return the texts of a dictionary that it assigns."""
        value = self.values.get(name)
        items = value.items() if isinstance(value, dict) else ()
        return {key: one for key, one in items if isinstance(key, str) and isinstance(one, str)}

    def images(self) -> tuple[str, ...]:
        """Return what it names its image by: a reference, or names of files."""
        if self.string("image"):
            return (self.string("image"),)
        sources = self.values.get("sources")
        listed = sources if isinstance(sources, (list, tuple)) else ()
        names = (one.get("filename") if isinstance(one, dict) else one for one in listed)
        return tuple(name for name in names if isinstance(name, str))

    def line(self, words: str) -> int:
        """Return the first line that holds some words."""
        return line_of(self.text, words)


def _filled(value: Any, templates: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return fill_templates(value, templates)
    if isinstance(value, (list, tuple)):
        return [_filled(one, templates) for one in value]
    if isinstance(value, dict):
        return {key: _filled(one, templates) for key, one in value.items()}
    return value
