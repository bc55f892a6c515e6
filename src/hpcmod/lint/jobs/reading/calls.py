"""Parse the commands of a batch script: variables, srun and its options, the container, the program in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hpcmod.lint.jobs.reading.names import SLURM_FLAGS, SLURM_SHORT
from hpcmod.lint.jobs.reading.script import BatchScript, Option, read_options
from hpcmod.lint.jobs.reading.syntax import Command, Document, Word, read_shell_commands
from hpcmod.machine.values.site import RUNTIMES
from hpcmod.modules.values.runtime_options import RUNTIME_FLAGS, RUNTIME_LETTERS, RUNTIME_SHORT

SHELLS = ("bash", "sh")
_KEYWORDS = {"do", "then", "else", "elif", "if", "while", "until", "!", "time", "exec", "{", "command"}
_DECLARES = {"export", "declare", "local", "readonly", "typeset"}
_WRAPPERS = {"timeout", "nohup", "numactl", "stdbuf", "nice", "ionice", "taskset", "setsid", "strace", "xargs", "env"}
"""Programs that start another one."""
_EXPANDED = re.compile(r"\b(\w+)\+?=[^;\s]{0,200}?(?<!\\)[$`]")
"""A variable whose value is expanded by the shell that reads the quotes, if within "..."."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?(\+?=)(.*)", re.DOTALL)
_LISTED = re.compile(r"[^/.\s]\S* ")  # A value that consists of several words, rather than a path with spaces
_WHOLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_ARRAY = re.compile(r"\"?\$\{(\w+)\[[@*]\]\}\"?")


@dataclass(frozen=True)
class Variable:
    """A variable that a command sets."""

    name: str
    value: str
    """As written, without its outer quotes."""
    line: int
    in_step: bool = False
    """Whether it is set where srun starts the ranks, and not in the batch script."""
    exported: bool = False
    """Whether programs see it: it is exported, or set for one command."""
    items: tuple[str, ...] = ()
    """The elements of an array."""
    adds: bool = False
    """Whether it is added to what the variable has, by +=."""


@dataclass(frozen=True)
class ContainerCall:
    """A call of singularity or apptainer."""

    verb: str
    options: tuple[Option, ...]
    image: Word | None


@dataclass(frozen=True)
class Call(Command):
    """A parsed command."""

    variables: tuple[Variable, ...] = ()
    srun: tuple[Option, ...] | None = None
    """Options of the srun that starts it; None if it runs in the batch script itself."""
    container: ContainerCall | None = None
    program: tuple[Word, ...] = ()
    """The program that finally runs, and its arguments."""
    exports: tuple[str, ...] = ()
    """Names that it exports without setting them."""
    wrappers: tuple[Word, ...] = ()
    """Words between srun and the program: a script that selects a GPU, numactl and its options."""
    inner: bool = False
    """Whether it is run by `bash -c`, or is part of a script that the batch script writes."""

    @property
    def name(self) -> str:
        """Return the name of the program without its directory; empty if there is none."""
        return self.program[0].name if self.program else ""

    @property
    def flags(self) -> set[str]:
        """Return the names of the options of its container."""
        return {option.name for option in self.container.options} if self.container else set()

    @property
    def runtime(self) -> str:
        """Return the name of the container runtime as the script calls it."""
        return next((word.name for word in self.words if word.name in RUNTIMES), RUNTIMES[0])

    def arguments(self) -> str:
        """Return all words of the program as one string."""
        return " ".join(word.plain for word in self.program)

    def of_srun(self, name: str) -> Option | None:
        """Return an option of the srun that starts it: the last of that name, which counts."""
        return next((option for option in reversed(self.srun or ()) if option.name == name), None)


def read_calls(script: BatchScript) -> tuple[Call, ...]:
    """Parse every command of a script, including those that `bash -c` runs."""
    known: dict[str, str] = {}
    arrays: dict[str, tuple[str, ...]] = {}
    calls: list[Call] = []
    for command in script.commands:
        for call in _calls(_substitute(command, known, arrays), known):
            calls.append(call)
            for variable in call.variables if "function" not in call.places else ():
                if variable.items:
                    elements = arrays.get(variable.name, ()) if variable.adds else ()
                    arrays[variable.name] = (*elements, *variable.items)
                elif not variable.in_step:
                    known[variable.name] = (known.get(variable.name, "") if variable.adds else "") + variable.value
    return tuple(calls)


def read_document(document: Document) -> tuple[Call, ...]:
    """Parse the commands of a script that a batch script writes and every rank runs."""
    text = document.text if document.literal else re.sub(r"\\([$`\\])", r"\1", document.text)
    calls = (call for command in read_shell_commands(text, document.line) for call in _calls(command, {}))
    return tuple(
        replace(call, inner=True, variables=tuple(replace(variable, in_step=True) for variable in call.variables))
        for call in calls
    )


def _substitute(command: Command, known: Mapping[str, str], arrays: Mapping[str, tuple[str, ...]]) -> Command:
    """Expand variables that contain commands: $LAUNCHER python train.py, "${ARGS[@]}"."""
    words: list[Word] = []
    for word in command.words:
        if (array := _ARRAY.fullmatch(word.text)) and array[1] in arrays:
            words += [Word(item, word.line) for item in arrays[array[1]]]
            continue
        value = _value(word.text, known)
        is_simple = value and "\n" not in value and not value.startswith(("$(", "`"))
        is_command = is_simple and (not words or _LISTED.match(value))
        inner = read_shell_commands(value, word.line) if is_command else ()
        words += [Word(each.text, each.line) for command in inner for each in command.words] or [word]
    return replace(command, words=tuple(words))


def _value(text: str, known: Mapping[str, str]) -> str:
    whole = _WHOLE.fullmatch(text)
    return known.get(whole[1] or whole[2], "") if whole else ""


def _calls(command: Command, known: Mapping[str, str]) -> Iterator[Call]:
    call = _read_call(command)
    yield call
    pairs = zip(call.program[1:], call.program[2:]) if call.name in SHELLS else ()
    for text in [word for option, word in pairs if re.match(r"-[^-]*c", option.plain)][:1]:
        for inner in read_shell_commands(_told(text, known), text.line):
            yield _within(call, text, inner)


def _told(text: Word, known: Mapping[str, str]) -> str:
    """Return a word of `bash -c` as that shell receives it: within "..." the batch shell removes backslashes."""
    if not text.text.startswith('"'):
        return text.plain
    return re.sub(r"\\([$`\"\\])", r"\1", _value(text.plain, known) or text.plain)


def _within(outer: Call, text: Word, command: Command) -> Call:
    call = _read_call(replace(command, background=outer.background or command.background, places=outer.places))
    early = _EXPANDED.findall(text.text) if text.text.startswith('"') else ()
    return replace(
        call,
        variables=tuple(
            replace(variable, in_step=outer.srun is not None and variable.name not in early)
            for variable in call.variables
        ),
        srun=outer.srun if call.srun is None else call.srun,
        container=call.container or outer.container,
        wrappers=outer.wrappers + call.wrappers,
        inner=True,
    )


def _read_call(command: Command) -> Call:
    variables, exports, words = _read_variables(command.words)
    wrappers: tuple[Word, ...] = ()
    srun, container = None, None
    if not exports:
        words, wrappers = _unwrap(words, ("srun", *RUNTIMES))
    if words and words[0].name == "srun":
        srun, words = read_options(words[1:], SLURM_SHORT, SLURM_FLAGS)
        more, _, words = _read_variables(words)
        variables += tuple(replace(variable, in_step=True) for variable in more)
        words, wrappers = _unwrap(words, RUNTIMES)
    if words and words[0].name in RUNTIMES:
        container, words = _read_container(words)
        more, _, words = _read_variables(words)
        variables += tuple(replace(variable, in_step=srun is not None) for variable in more)
    return Call(
        **vars(command),
        variables=variables,
        srun=srun,
        container=container,
        program=tuple(words),
        exports=exports,
        wrappers=wrappers,
    )


def _unwrap(words: Sequence[Word], wanted: Sequence[str]) -> tuple[Sequence[Word], tuple[Word, ...]]:
    """Split off the programs that start one of `wanted`: `timeout 60 srun`, `./select_gpu singularity`."""
    first = words[0].plain if words else ""
    if first.startswith((".", "/", "$")) or first.endswith(".sh") or (words and words[0].name in _WRAPPERS):
        for position, word in enumerate(words[1:], 1):
            if word.name in wanted:
                return words[position:], tuple(words[:position])
    return words, ()


def _read_variables(words: Sequence[Word]) -> tuple[tuple[Variable, ...], tuple[str, ...], Sequence[Word]]:
    """Parse what precedes a program: keywords, `env`, and its variables; also names that are only exported."""
    variables: list[Variable] = []
    names: tuple[str, ...] = ()
    program: Sequence[Word] = ()
    declared = ""
    for position, word in enumerate(words):
        if assignment := _ASSIGNMENT.fullmatch(word.text):
            name, operator, value = assignment.groups()
            plain = Word(value, word.line).plain
            variables.append(Variable(name, plain, word.line, items=word.items, adds=operator == "+="))
        elif declared and re.fullmatch(r"\w+", word.text):
            names = tuple(each.text for each in words[position:] if re.fullmatch(r"\w+", each.text))
            break
        elif word.plain in _DECLARES:
            declared = "export" if word.plain == "export" else declared or word.plain
        elif declared and word.plain.startswith("-"):
            declared = "export" if "x" in word.plain else declared
        elif word.plain not in _KEYWORDS and word.plain not in ("env", "-x", "-gx"):
            program = words[position:]
            break
    exported = bool(program) or declared == "export"
    return tuple(replace(variable, exported=exported) for variable in variables), names, program


def _read_container(words: Sequence[Word]) -> tuple[ContainerCall, Sequence[Word]]:
    general, rest = read_options(words[1:], {}, RUNTIME_FLAGS)
    verb = rest[0].plain if rest else ""
    if verb not in ("exec", "run", "shell"):
        return ContainerCall(verb, general, None), rest[1:]
    options, left = read_options(rest[1:], {**RUNTIME_SHORT, "s": "shell"}, RUNTIME_FLAGS, RUNTIME_LETTERS)
    return ContainerCall(verb, (*general, *options), left[0] if left else None), left[1:]
