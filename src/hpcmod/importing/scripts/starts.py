"""Find the commands of a batch script that start a container, whatever starts it.

Sources, read 2026-11: the options of Singularity and Apptainer as in hpcmod.check.jobs.reading.options,
https://github.com/NVIDIA/pyxis (README.md), https://shifter.readthedocs.io/en/latest/command/shifter.html (image and
volume). The options of other runtimes are their usual ones, not checked against their documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hpcmod.check.jobs.reading.calls import RUNTIMES, Call, read_calls
from hpcmod.check.jobs.reading.options import (
    RUNTIME_FLAGS,
    RUNTIME_LETTERS,
    RUNTIME_SHORT,
    Option,
    read_options,
)
from hpcmod.check.jobs.reading.script import BatchScript, read_batch_script
from hpcmod.check.jobs.reading.words import Word

LAUNCHERS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "srun", "timeout", "numactl", "time", "nice")
"""Programs that may start a container runtime, besides those that the reader of batch scripts knows."""

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_MOST_EXPANSIONS = 5  # variables in values of variables
_LONGEST = 1 << 14  # characters of an expanded text


@dataclass(frozen=True)
class Syntax:
    """How a container runtime is called."""

    verbs: tuple[str, ...] = ()
    """Words after its name that start a container; none: it has no verbs."""
    short: Mapping[str, str] = field(default_factory=dict)
    """Names of the one-letter options that take a value."""
    flags: frozenset[str] = frozenset()
    """Long options that take none."""
    letters: Mapping[str, str] = field(default_factory=dict)
    """Names of the one-letter options that take none."""
    image_is_option: bool = False
    """Whether an option names the image; if not, the first word after the options does."""


_DOCKER = Syntax(
    ("run", "shared-run"),
    {"v": "volume", "e": "env", "w": "workdir", "u": "user", "p": "publish", "h": "hostname", "m": "memory"},
    frozenset(
        (
            *("rm", "interactive", "tty", "detach", "privileged", "read-only", "init", "oom-kill-disable"),
            *("publish-all", "sig-proxy", "no-healthcheck", "quiet"),
            *("gpu", "mpi", "cuda-mpi", "nccl", "cvmfs", "openmpi-pmi2", "openmpi-pmix", "ldconfig"),
        )
    ),
    {"i": "interactive", "t": "tty", "d": "detach", "P": "publish-all", "q": "quiet"},
)
_RUNTIME = Syntax(("exec", "run"), RUNTIME_SHORT, frozenset(RUNTIME_FLAGS), RUNTIME_LETTERS)
SYNTAXES: Mapping[str, Syntax] = {
    **dict.fromkeys(RUNTIMES, _RUNTIME),
    **dict.fromkeys(("docker", "podman", "podman-hpc"), _DOCKER),
    "shifter": Syntax(
        (),
        {"i": "image", "V": "volume", "m": "module", "e": "env", "w": "workdir"},
        frozenset(("verbose", "help", "clearenv", "entrypoint")),
        {"v": "verbose", "h": "help", "E": "clearenv"},
        image_is_option=True,
    ),
    "enroot": Syntax(
        ("start",),
        {"m": "mount", "e": "env", "c": "conf"},
        frozenset(("rw", "root", "rc")),
        {"w": "rw", "r": "root"},
    ),
    "sarus": Syntax(
        ("run",),
        {"t": "tty", "e": "env", "w": "workdir"},
        frozenset(("mpi", "ssh", "glibc", "init", "tty", "centralized-repository", "pid=host")),
    ),
    "e4s-cl": Syntax(("launch",), {}, frozenset(("quiet", "verbose")), image_is_option=True),
}
"""Container runtimes by the name of their command; Pyxis is a part of srun."""


@dataclass(frozen=True)
class ContainerStart:
    """A command that starts a container."""

    runtime: str
    """A name in SYNTAXES, or pyxis."""
    verb: str
    image: str
    """As written, with the script's own variables expanded; empty: the directives of the script name it."""
    options: tuple[Option, ...]
    """Of the runtime, values expanded."""
    program: tuple[str, ...]
    """Words, expanded; `$` is left where a variable is not known."""
    launcher: tuple[Option, ...] | None
    """Options of srun, values expanded; None: it is started without srun."""
    before: tuple[str, ...]
    """Programs between launcher and runtime, and options of launchers other than srun."""
    line: int
    lines: range
    """All lines of the command."""


@dataclass(frozen=True)
class StartScript:
    """A batch script, with the values of its variables."""

    script: BatchScript
    calls: tuple[Call, ...]
    variables: Mapping[str, str]
    """Values that the script sets, and those that were given; the script's win."""

    @classmethod
    def read(cls, text: str, given: Mapping[str, str]) -> StartScript:
        """Read a script; `given` are variables of its user."""
        script = read_batch_script(text)
        calls = read_calls(script)
        own = {one.name: one.value for call in calls for one in call.variables if "$(" not in one.value}
        return cls(script, calls, {**given, **{name: value for name, value in own.items() if "`" not in value}})

    def expand(self, text: str) -> str:
        """Expand the known variables; others stay unchanged."""
        for _ in range(_MOST_EXPANSIONS):
            new = _REFERENCE.sub(lambda found: self.variables.get(found[1] or found[2], found[0]), text)
            if new == text or len(new) > _LONGEST:
                break
            text = new
        return text

    def starts(self) -> Iterator[ContainerStart]:
        """Yield the commands that start a container, in order."""
        return (start for _, start in self.calls_that_start())

    def calls_that_start(self) -> Iterator[tuple[Call, ContainerStart]]:
        """Yield the commands that start a container, in order, as they were read and as what they start."""
        directive = _names_image(self.script.options)
        for call in self.calls:
            found = self._start(call)
            if found:
                yield call, found
            elif call.srun is not None and not call.inner and (directive or _names_image(call.srun)):
                yield call, self._pyxis(call)

    def _start(self, call: Call) -> ContainerStart | None:
        if call.inner and call.container is not None and not any(_name(word) in RUNTIMES for word in call.words):
            return None  # a part of the program in the container
        if call.container is not None:
            if call.container.verb not in _RUNTIME.verbs or call.container.image is None:
                return None
            name = next(word for word in call.words if _name(word) in RUNTIMES) if not call.inner else None
            return self._made(
                call,
                _name(name) if name else RUNTIMES[0],
                call.container.verb,
                call.container.image.plain,
                call.container.options,
                call.program,
                call.wrappers,
            )
        at = next((at for at, word in enumerate(call.program) if _name(word) in SYNTAXES), None)
        if at is None or (at and call.name not in LAUNCHERS):
            return None
        return self._parsed(call, at)

    def _parsed(self, call: Call, at: int) -> ContainerStart | None:
        """Return the start by a runtime at a position of the program's words."""
        runtime = _name(call.program[at])
        syntax, left = SYNTAXES[runtime], call.program[at + 1 :]
        verb = ""
        options: tuple[Option, ...] = ()
        if syntax.verbs:
            options, left = read_options(left, {}, set(syntax.flags))
            if not left or left[0].plain not in syntax.verbs:
                return None
            verb, left = left[0].plain, left[1:]
        more, left = read_options(left, dict(syntax.short), set(syntax.flags), dict(syntax.letters))
        options += more
        if syntax.image_is_option:
            image = next((one.value for one in options if one.name == "image"), "")
        elif left:
            image, left = left[0].plain, left[1:]
        else:
            return None
        return self._made(call, runtime, verb, image, options, left, (*call.wrappers, *call.program[:at]))

    def _pyxis(self, call: Call) -> ContainerStart:
        options = [one for one in call.srun or () if one.name.startswith(("container-", "no-container-"))]
        image = next((one.value for one in options if one.name == "container-image"), "")
        return self._made(call, "pyxis", "", image, options, call.program, call.wrappers)

    def _made(
        self,
        call: Call,
        runtime: str,
        verb: str,
        image: str,
        options: Sequence[Option],
        program: Sequence[Word],
        before: Sequence[Word],
    ) -> ContainerStart:
        return ContainerStart(
            runtime,
            verb,
            self.expand(image),
            tuple(self._expanded(options)),
            tuple(self.expand(word.plain) for word in program),
            None if call.srun is None else tuple(self._expanded(call.srun)),
            tuple(self.expand(word.plain) for word in before),
            call.line,
            call.multiline,
        )

    def _expanded(self, options: Sequence[Option]) -> Iterator[Option]:
        return (Option(one.name, self.expand(one.value), one.line) for one in options)


def _names_image(options: Sequence[Option]) -> bool:
    return any(option.name == "container-image" for option in options)


def _name(word: Word) -> str:
    return word.plain.rpartition("/")[2]
