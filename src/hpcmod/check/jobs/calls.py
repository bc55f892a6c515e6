"""What a command of a batch script starts: variables, srun with its options, a container, and the program in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from hpcmod.check.jobs.script import (
    RUNTIME_FLAGS,
    RUNTIME_LETTERS,
    RUNTIME_SHORT,
    SLURM_FLAGS,
    SLURM_SHORT,
    BatchScript,
    Command,
    Option,
    Word,
    read_commands,
    read_options,
)

RUNTIMES = ("singularity", "apptainer")
SHELLS = ("bash", "sh")
_KEYWORDS = {
    "do",
    "then",
    "else",
    "elif",
    "if",
    "while",
    "until",
    "!",
    "time",
    "exec",
    "{",
    "command",
    "export",
    "declare",
}
_EXPANDED = re.compile(r"\b(\w+)\+?=[^;\s]{0,200}?(?<!\\)[$`]")
"""A variable whose value, within "...", is expanded by the shell that reads the quotes."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Variable:
    """A variable that a command sets."""

    name: str
    value: str
    """As it is written, without its outer quotes."""
    line: int
    in_step: bool = False
    """It is set where srun starts the ranks, and not in the batch script."""


@dataclass(frozen=True)
class Container:
    """A call of singularity or apptainer."""

    verb: str
    options: tuple[Option, ...]
    image: Word | None
    line: int


@dataclass(frozen=True)
class Call:
    """One command, taken apart."""

    line: int
    variables: tuple[Variable, ...] = ()
    srun: tuple[Option, ...] | None = None
    """Options of the srun that starts it; None: it runs in the batch script itself."""
    container: Container | None = None
    program: tuple[Word, ...] = field(default=())
    """What runs in the end, and its arguments."""
    background: bool = False

    @property
    def name(self) -> str:
        """Name of the program without its directory; empty if there is none."""
        return self.program[0].plain.rpartition("/")[2] if self.program else ""

    def arguments(self) -> str:
        """All words of the program as one text."""
        return " ".join(word.plain for word in self.program)


def read_calls(script: BatchScript) -> tuple[Call, ...]:
    """Take every command of a script apart, and what `bash -c` is told to do as well."""
    return tuple(call for command in script.commands for call in _calls(command))


def _calls(command: Command) -> Iterator[Call]:
    call = _read_call(command)
    yield call
    text = next((word for word in call.program[1:] if not word.plain.startswith("-")), None)
    if call.name in SHELLS and text and any(word.plain in ("-c", "-ec", "-lc") for word in call.program):
        yield from (_within(call, text, inner) for inner in read_commands(_told(text)))


def _told(text: Word) -> str:
    """Read a word of `bash -c` as that shell gets it: within "..." the batch shell takes backslashes away."""
    return re.sub(r"\\([$`\"\\])", r"\1", text.plain) if text.text.startswith('"') else text.plain


def _within(outer: Call, text: Word, command: Command) -> Call:
    """Read a command that a shell is told to run, as part of the call that starts this shell."""
    words = tuple(Word(word.text, text.line + word.line - 1) for word in command.words)
    call = _read_call(replace(command, words=words))
    early = _EXPANDED.findall(text.text) if text.text.startswith('"') else ()
    return replace(
        call,
        variables=tuple(
            replace(variable, in_step=outer.srun is not None and variable.name not in early)
            for variable in call.variables
        ),
        background=outer.background or call.background,
        srun=outer.srun if call.srun is None else call.srun,
        container=call.container or outer.container,
    )


def _read_call(command: Command) -> Call:
    line = command.words[0].line
    variables, words = _read_variables(command.words)
    srun, container = None, None
    if words and _name(words[0]) == "srun":
        srun, words = read_options(words[1:], SLURM_SHORT, SLURM_FLAGS)
        more, words = _read_variables(words)
        variables += tuple(replace(variable, in_step=True) for variable in more)
    if words and _name(words[0]) in RUNTIMES:
        container, words = _read_container(words)
    return Call(line, variables, srun, container, tuple(words), command.background)


def _read_variables(words: Sequence[Word]) -> tuple[tuple[Variable, ...], Sequence[Word]]:
    """Read what stands before a program: keywords, `env`, and variables it is to see."""
    found: list[Variable] = []
    for position, word in enumerate(words):
        given = _ASSIGNMENT.fullmatch(word.text)
        if given:
            found.append(Variable(given[1], Word(given[2], word.line).plain, word.line))
        elif word.plain not in _KEYWORDS and word.plain not in ("env", "-x", "-gx"):
            return tuple(found), words[position:]
    return tuple(found), ()


def _read_container(words: Sequence[Word]) -> tuple[Container, Sequence[Word]]:
    line = words[0].line
    general, rest = read_options(words[1:], {}, RUNTIME_FLAGS)
    if not rest or rest[0].plain not in ("exec", "run", "shell"):
        return Container(rest[0].plain if rest else "", general, None, line), rest[1:]
    options, left = read_options(rest[1:], RUNTIME_SHORT, RUNTIME_FLAGS, RUNTIME_LETTERS)
    return Container(rest[0].plain, (*general, *options), left[0] if left else None, line), left[1:]


def _name(word: Word) -> str:
    return word.plain.rpartition("/")[2]
