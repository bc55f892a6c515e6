"""Read a batch script as sbatch and bash do: #SBATCH lines, and commands with the line of each word."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcmod.lint.jobs.reading.options import SLURM_FLAGS, SLURM_SHORT, Option, read_options
from hpcmod.lint.jobs.reading.syntax import Command, Word, find_syntax_error, read_shell_commands, until_end

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
    strays: tuple[Word, ...]
    """Words in the #SBATCH lines that are neither options nor values."""
    commands: tuple[Command, ...]
    documents: frozenset[int] = frozenset()
    """Numbers of the lines of here-documents, and of quoted text of several lines."""
    error: tuple[int, str] | None = None
    """Line and message of the first syntax error."""

    @property
    def code(self) -> tuple[tuple[int, str], ...]:
        """Return numbers and texts of the lines that are neither such text nor comments."""
        return tuple(
            (number, line)
            for number, line in enumerate(self.lines, 1)
            if number not in self.documents and not line.lstrip().startswith("#")
        )


def read_batch_script(text: str) -> BatchScript:
    """Read a batch script; never fails."""
    is_shell = _SHELL.match(text) is not None
    is_checked = is_shell and "\r\n" not in text and not re.match("#!.*ksh", text)
    text = until_end(text) if is_checked else text
    error = find_syntax_error(text) if is_checked else None
    lines = tuple(text.split("\n"))
    commented = (not line.strip() or line.lstrip().startswith("#") for line in lines)
    first = next((number for number, is_comment in enumerate(commented, 1) if not is_comment), len(lines) + 1)
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.startswith(_DIRECTIVE)]
    group = next((number for number, line in numbered if re.match(r"#SBATCH\s+(?:het|pack)job\b", line)), first)
    read = [(number, line) for number, line in numbered if number < min(first, group)]
    given_texts = [(number, line[len(_DIRECTIVE) :].partition("#")[0]) for number, line in read]
    worded = ([Word(word, number) for word in _WORD.findall(text)] for number, text in given_texts)
    directives = [read_options(words, SLURM_SHORT, SLURM_FLAGS) for words in worded]
    commands = read_shell_commands(text) if is_shell else ()
    words = (word for command in commands for word in command.words if re.search(r"[\"']|<<", word.text))
    texts = [(word.line, word.text.count("\n")) for word in words if "\n" in word.text]
    texts += [(each.line, each.text.count("\n") + 1) for command in commands for each in command.documents]
    documents = frozenset(number for start, more in texts for number in range(start, start + more + 1))
    given = (number for number, line in numbered if re.match(r"#SBATCH\s*-", line))
    late = tuple(number for number in given if is_shell and number > first and number not in documents)
    options = tuple(option for given, _ in directives for option in given)
    strays = tuple(word for _, left in directives for word in left)
    return BatchScript(lines, options, late, strays, commands, documents, error)
