"""Read a batch script as sbatch and bash do: #SBATCH lines, and commands with the line of each word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hpcmod.lint.jobs.reading.options import SLURM_FLAGS, SLURM_SHORT, Option, read_options
from hpcmod.lint.jobs.reading.syntax import Command, Word, find_syntax_error, read_shell_commands

_DIRECTIVE = "#SBATCH"
_WORD = re.compile(r"(?:[^\s\"']|\"[^\"]*\"|'[^']*'|[\"'])+")
_SHELL = re.compile(r"#!.*\b(?:ba|da|k)?sh\b|(?!#!)")
"""First line of what bash can read: a script for the C shell or Python is not read as one."""


@dataclass(frozen=True)
class BatchScript:
    """A batch script."""

    lines: tuple[str, ...]
    options: tuple[Option, ...]
    """Options in the #SBATCH lines that sbatch reads: those before the first command, of the first group."""
    late: tuple[int, ...]
    """Numbers of the #SBATCH lines after the first command, which sbatch does not read."""
    commands: tuple[Command, ...]
    documents: frozenset[int] = frozenset()
    """Numbers of the lines within here-documents."""
    error: tuple[int, str] | None = None
    """Line and message of the first syntax error."""

    @property
    def code(self) -> tuple[tuple[int, str], ...]:
        """Return numbers and texts of the lines outside here-documents that are not comments."""
        return tuple(
            (number, line)
            for number, line in enumerate(self.lines, 1)
            if number not in self.documents and not line.lstrip().startswith("#")
        )


def read_batch_script(text: str) -> BatchScript:
    """Read a batch script; never fails."""
    lines = tuple(text.split("\n"))
    first = _first_command(lines)
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.startswith(_DIRECTIVE)]
    group = next((number for number, line in numbered if re.match(r"#SBATCH\s+(?:het|pack)job\b", line)), first)
    read = [(number, line) for number, line in numbered if number < min(first, group)]
    options = [option for number, line in read for option in _directive_options(line, number)]
    is_shell = _SHELL.match(text) is not None
    commands = read_shell_commands(text) if is_shell else ()
    spans = ((doc.line, doc.line + doc.text.count("\n") + 2) for each in commands for doc in each.documents)
    documents = frozenset(number for begin, end in spans for number in range(begin, end))
    late = tuple(number for number, _ in numbered if number > first and number not in documents)
    error = find_syntax_error(text) if is_shell and "\r\n" not in text else None
    return BatchScript(lines, tuple(options), late, commands, documents, error)


def _first_command(lines: Sequence[str]) -> int:
    """Return the number of the first line that is neither empty nor a comment: sbatch reads no options after it."""
    return next((n for n, line in enumerate(lines, 1) if line.strip() and line.lstrip()[0] != "#"), len(lines) + 1)


def _directive_options(line: str, number: int) -> tuple[Option, ...]:
    text = line[len(_DIRECTIVE) :].partition("#")[0]
    words = [Word(word, number) for word in _WORD.findall(text)]
    return read_options(words, SLURM_SHORT, SLURM_FLAGS)[0]
