"""Parse the commands of a batch script: variables, srun and its options, the container, the program in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hpcmod.lint.jobs.reading.options import SLURM_FLAGS, SLURM_SHORT, Option, read_options
from hpcmod.lint.jobs.reading.script import BatchScript
from hpcmod.lint.jobs.reading.syntax import Command, Document, Word, read_shell_commands
from hpcmod.modules.values.runtime_options import RUNTIME_FLAGS, RUNTIME_LETTERS, RUNTIME_SHORT

RUNTIMES = ("singularity", "apptainer")
SHELLS = ("bash", "sh")
_KEYWORDS = {"do", "then", "else", "elif", "if", "while", "until", "!", "time", "exec", "{", "command"}
_DECLARES = {"export", "declare", "local", "readonly", "typeset"}
_WRAPPERS = {"timeout", "nohup", "numactl", "stdbuf", "nice", "ionice", "taskset", "setsid", "strace", "xargs", "env"}
"""Programs that start another one."""
_EXPANDED = re.compile(r"\b(\w+)\+?=[^;\s]{0,200}?(?<!\\)[$`]")
"""A variable whose value is expanded by the shell that reads the quotes, if within "..."."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=(.*)", re.DOTALL)
_LISTED = re.compile(r"[^/.\s]\S* ")
"""A value that consists of several words, rather than a path with spaces."""
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
    line: int


@dataclass(frozen=True)
class Call:
    """A parsed command."""

    line: int
    variables: tuple[Variable, ...] = ()
    srun: tuple[Option, ...] | None = None
    """Options of the srun that starts it; None if it runs in the batch script itself."""
    container: ContainerCall | None = None
    program: tuple[Word, ...] = field(default=())
    """The program that finally runs, and its arguments."""
    background: bool = False
    exports: tuple[str, ...] = ()
    """Names that it exports without setting them."""
    wrappers: tuple[Word, ...] = ()
    """Words between srun and the program: a script that selects a GPU, numactl and its options."""
    words: tuple[Word, ...] = ()
    """The command as written."""
    inner: bool = False
    """Whether it is run by `bash -c`, or is part of a script that the batch script writes."""
    outputs: tuple[str, ...] = ()
    documents: tuple[Document, ...] = ()
    places: frozenset[str] = frozenset()
    """Where it is: in a function, a loop, a branch."""

    @property
    def name(self) -> str:
        """Return the name of the program without its directory; empty if there is none."""
        return self.program[0].plain.rpartition("/")[2] if self.program else ""

    def arguments(self) -> str:
        """Return all words of the program as one string."""
        return " ".join(word.plain for word in self.program)


def read_calls(script: BatchScript) -> tuple[Call, ...]:
    """Parse every command of a script, including those that `bash -c` runs."""
    known: dict[str, str] = {}
    arrays: dict[str, tuple[str, ...]] = {}
    found: list[Call] = []
    for command in script.commands:
        for call in _calls(_substitute(command, known, arrays), known):
            found.append(call)
            for variable in call.variables if "function" not in call.places else ():
                if variable.items:
                    before = arrays.get(variable.name, ()) if variable.adds else ()
                    arrays[variable.name] = (*before, *variable.items)
                elif not variable.in_step:
                    before_it = known.get(variable.name, "") if variable.adds else ""
                    known[variable.name] = before_it + variable.value
    return tuple(found)


def read_document(document: Document) -> tuple[Call, ...]:
    """Parse the commands of a script that a batch script writes and every rank runs."""
    text = document.text if document.literal else re.sub(r"\\([$`\\])", r"\1", document.text)
    found = [call for command in read_shell_commands(text) for call in _calls(command, {})]
    return tuple(
        replace(
            call,
            line=call.line + document.line - 1,
            inner=True,
            variables=tuple(replace(one, in_step=True, line=one.line + document.line - 1) for one in call.variables),
        )
        for call in found
    )


def _substitute(command: Command, known: Mapping[str, str], arrays: Mapping[str, tuple[str, ...]]) -> Command:
    """Expand variables that contain commands: $LAUNCHER python train.py, "${ARGS[@]}"."""
    words: list[Word] = []
    for word in command.words:
        if (listed := _ARRAY.fullmatch(word.text)) and listed[1] in arrays:
            words += [Word(item, word.line) for item in arrays[listed[1]]]
            continue
        found = _WHOLE.fullmatch(word.text)
        value = known.get(found[1] or found[2], "") if found else ""
        stands = value and "\n" not in value and not value.startswith("$(") and (not words or _LISTED.match(value))
        inner = [one for each in read_shell_commands(value) for one in each.words] if stands else []
        words += [Word(one.text, word.line) for one in inner] or [word]
    return replace(command, words=tuple(words))


def _calls(command: Command, known: Mapping[str, str]) -> Iterator[Call]:
    call = replace(_read_call(command), outputs=command.outputs, documents=command.documents, places=command.places)
    yield call
    text = _told_word(call)
    if text:
        for inner in read_shell_commands(_told(text, known)):
            yield _within(call, text, inner)


def _told_word(call: Call) -> Word | None:
    """Return the word that `bash -c` runs."""
    if call.name not in SHELLS:
        return None
    for option, word in zip(call.program[1:], call.program[2:]):
        if option.plain.startswith("-") and "c" in option.plain and not option.plain.startswith("--"):
            return word
    return None


def _told(text: Word, known: Mapping[str, str]) -> str:
    """Return a word of `bash -c` as that shell receives it: within "..." the batch shell removes backslashes."""
    if not text.text.startswith('"'):
        return text.plain
    whole = _WHOLE.fullmatch(text.plain)
    plain = known.get(whole[1] or whole[2], text.plain) if whole else text.plain
    return re.sub(r"\\([$`\"\\])", r"\1", plain)


def _within(outer: Call, text: Word, command: Command) -> Call:
    """Return a command that a shell runs as part of the call that starts this shell."""
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
        wrappers=outer.wrappers + call.wrappers,
        inner=True,
        places=outer.places,
    )


def _read_call(command: Command) -> Call:
    line = command.words[0].line
    variables, exports, words = _read_variables(command.words)
    if exports or not words:
        return Call(line, variables, exports=exports, background=command.background, words=command.words)
    words, wrappers = _unwrap(words, ("srun", *RUNTIMES))
    srun, container = None, None
    if words and _name(words[0]) == "srun":
        srun, words = read_options(words[1:], SLURM_SHORT, SLURM_FLAGS)
        more, _, words = _read_variables(words)
        variables += tuple(replace(variable, in_step=True) for variable in more)
        words, wrappers = _unwrap(words, RUNTIMES)
    if words and _name(words[0]) in RUNTIMES:
        container, words = _read_container(words)
        more, _, words = _read_variables(words)
        variables += tuple(replace(variable, in_step=srun is not None) for variable in more)
    return Call(
        line, variables, srun, container, tuple(words), command.background, wrappers=wrappers, words=command.words
    )


def _unwrap(words: Sequence[Word], wanted: Sequence[str]) -> tuple[Sequence[Word], tuple[Word, ...]]:
    """Split off the programs that start one of `wanted`: `timeout 60 srun`, `./select_gpu singularity`."""
    first = words[0].plain if words else ""
    if first.startswith((".", "/", "$")) or first.endswith(".sh") or _name(words[0]) in _WRAPPERS if words else False:
        for position, word in enumerate(words):
            if position and _name(word) in wanted:
                return words[position:], tuple(words[:position])
    return words, ()


def _read_variables(words: Sequence[Word]) -> tuple[tuple[Variable, ...], tuple[str, ...], Sequence[Word]]:
    """Parse what precedes a program: keywords, `env`, and its variables; also names that are only exported."""
    found: list[Variable] = []
    declared = ""
    for position, word in enumerate(words):
        given = _ASSIGNMENT.fullmatch(word.text)
        if given:
            value = Word(given[2], word.line).plain
            adds = word.text[len(given[1]) :].startswith("+=")
            found.append(Variable(given[1], value, word.line, items=word.items, adds=adds))
        elif declared and re.fullmatch(r"\w+", word.text):
            found_names = tuple(one.text for one in words[position:] if re.fullmatch(r"\w+", one.text))
            return _exported(found, declared == "export"), found_names, ()
        elif word.plain in _DECLARES:
            declared = "export" if word.plain == "export" else declared or word.plain
        elif declared and word.plain.startswith("-"):
            declared = "export" if "x" in word.plain else declared
        elif word.plain not in _KEYWORDS and word.plain not in ("env", "-x", "-gx"):
            return _exported(found, True), (), words[position:]
    return _exported(found, declared == "export"), (), ()


def _exported(found: Sequence[Variable], exported: bool) -> tuple[Variable, ...]:
    return tuple(replace(one, exported=exported) for one in found)


def _read_container(words: Sequence[Word]) -> tuple[ContainerCall, Sequence[Word]]:
    line = words[0].line
    general, rest = read_options(words[1:], {}, RUNTIME_FLAGS)
    if not rest or rest[0].plain not in ("exec", "run", "shell"):
        return ContainerCall(rest[0].plain if rest else "", general, None, line), rest[1:]
    options, left = read_options(rest[1:], RUNTIME_SHORT, RUNTIME_FLAGS, RUNTIME_LETTERS)
    return ContainerCall(rest[0].plain, (*general, *options), left[0] if left else None, line), left[1:]


def _name(word: Word) -> str:
    return word.plain.rpartition("/")[2]
