"""Read a batch script as sbatch and bash do: #SBATCH lines, and commands with the line of each word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hpcmod.lint.jobs.reading.names import SLURM_FLAGS, SLURM_SHORT
from hpcmod.lint.jobs.reading.syntax import Command, Word, find_syntax_error, read_shell_commands, until_end

_DIRECTIVE = "#SBATCH"
_WORD = re.compile(r"(?:[^\s\"']|\"[^\"]*\"|'[^']*'|[\"'])+")
_SHELL = re.compile(r"#!.*\b(?:ba|da|k)?sh\b|(?!#!)")
"""First line of what bash can read: a script for the C shell or Python is not read as one."""
_TEMPLATE = re.compile(r"(?m)<%[=\s-]|\{% .*%\}|\{\{[?#=~]|^@\(|^#SBATCH .*@[A-Z]\w+@")  # of brew, Jinja, simfactory


@dataclass(frozen=True)
class Option:
    """An option by its long name without dashes, e.g. nodes; the value is empty if it has none."""

    name: str
    value: str
    line: int


_OTHER_NAMES = {"tasks-per-node": "ntasks-per-node", "cpu_bind": "cpu-bind", "pack-group": "het-group"}


def read_options(
    words: Sequence[Word], short: dict[str, str], flags: set[str], letters: dict[str, str] | None = None
) -> tuple[tuple[Option, ...], tuple[Word, ...]]:
    """Split words into options and the words after them.

    `short` has the names of the one-letter options that take a value, `letters` of those that take none, and `flags`
    the long options that take none: all others do.
    """
    options: list[Option] = []
    left = list(words)
    while left and left[0].plain.startswith("-") and left[0].plain != "--":
        word = left.pop(0)
        name, equals, value = word.plain.lstrip("-").partition("=")
        if not word.plain.startswith("--"):
            letter, rest = word.plain[1:2], word.plain[2:]
            name = short.get(letter) or (letters or {}).get(letter, letter)
            value, equals = (rest, rest) if letter in short else ("", "=")
        if not equals and name not in flags and left:
            value = left.pop(0).plain
        options.append(Option(_OTHER_NAMES.get(name, name), value, word.line))
    return tuple(options), tuple(left[1:] if left and left[0].plain == "--" else left)


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
    is_whole = is_shell and not _TEMPLATE.search(text)
    is_checked = is_whole and "\r\n" not in text and not re.match("#!.*ksh", text)
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
    commands = read_shell_commands(text) if is_whole else ()
    words = (word for command in commands for word in command.words if re.search(r"[\"']|<<", word.text))
    texts = [(word.line, word.text.count("\n")) for word in words if "\n" in word.text]
    texts += [(each.line, each.text.count("\n") + 1) for command in commands for each in command.documents]
    documents = frozenset(number for start, more in texts for number in range(start, start + more + 1))
    given = (number for number, line in enumerate(lines, 1) if re.match(r"\s*#SBATCH\s*-", line))
    late = tuple(number for number in given if is_whole and number > first and number not in documents)
    options = tuple(option for given, _ in directives for option in given)
    strays = tuple(word for _, left in directives for word in left)
    return BatchScript(lines, options, late, strays, commands, documents, error)
