"""Input of the rules for batch scripts: the script, its calls, the requested resources, and the machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from hpcmod.lint.jobs.reading.calls import Call, Variable, read_document
from hpcmod.lint.jobs.reading.names import OF_OPTIONS, TOOLS
from hpcmod.lint.jobs.reading.script import BatchScript, Option
from hpcmod.lint.jobs.reading.syntax import Word
from hpcmod.machine.values.site import NodeType, Site

Fault = tuple[int, str, str]  # line, problem, cure

LAUNCHERS = ("torchrun", "deepspeed", "accelerate")
DISTRIBUTED = ("conda-python-distributed", *LAUNCHERS)
GPU_OPTIONS = ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "gres", "tres-per-task")
_TORCHRUN_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_LOADS = re.compile(r"(?:try[-_]?)?(?:add?|load?)(?:-any)?|try|sw(?:ap|itch)?")
MODULE_COMMAND = re.compile(
    r"ad|ali|appe|apr|auto|av|cache|cat|clea|conf|del|des|dis|edi|era|gd|getd|h(?:elp?)?$|info-|init|is[-_aAlL]|"
    r"k(?:ey.*)?$|ld$|l(?:is?)?$|lin|list|lo$|loa|mcc?$|mod-|ov|path|prepe|pu|re[flms]|r$|rm$|s$|sav|sd$|sea|set[de]|"
    r"sh$|sho|sh-|sl$|sou|sp$|spi|sta[st]|sw|table|tes|try|un|up|use?$|variant|w$|wh"
)  # how the commands of Lmod and Environment Modules begin, both of which accept abbreviations
_PLACEHOLDER = re.compile(r"(?<![<\w(])<[A-Za-z](?:[\w ./-]*[\w/])?>(?![(&])|(?<=/)<[A-Za-z]\w*>")
_USED = re.compile(r"\$(?:\{(\w+)([^}]*)\}|(\w+))")
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class ScriptContext:
    """A batch script on a machine."""

    script: BatchScript
    calls: tuple[Call, ...]
    site: Site
    text: str

    @cached_property
    def written(self) -> tuple[Call, ...]:
        """Return the calls in shell scripts that the batch script writes, as wrappers of a rank."""
        documents = (document for call in self.calls if call.outputs for document in call.documents)
        scripts = (document for document in documents if document.text.startswith("#!"))
        return tuple(call for script in scripts for call in read_document(script))

    @cached_property
    def body(self) -> str:
        """Return the lines that bash runs, without comments and here-documents."""
        return "\n".join(line for _, line in self.script.code)

    @cached_property
    def own(self) -> tuple[Call, ...]:
        """Return the calls of the batch script itself, without what `bash -c` runs."""
        return tuple(call for call in self.calls if not call.inner)

    @cached_property
    def images(self) -> tuple[tuple[Word, Call], ...]:
        """Return the images that are started, each with its call."""
        started = ((call.container.image, call) for call in self.calls if call.container)
        return tuple((image, call) for image, call in started if image)

    @cached_property
    def settings(self) -> tuple[tuple[Variable, Call], ...]:
        """Return the variables that the script, its steps and the scripts that it writes set, each with its call."""
        return tuple((variable, call) for call in (*self.calls, *self.written) for variable in call.variables)

    @cached_property
    def sources(self) -> bool:
        """Return whether the script sources another one, which may set any variable."""
        return any(call.name in ("source", ".", "eval") for call in self.calls)

    def option(self, *names: str, call: Call | None = None) -> Option | None:
        """Return an option by any of its names: of the srun of a call, or else of the script."""
        given = (*self.script.options, *((call.srun or ()) if call else ()))
        return next((option for option in reversed(given) if option.name in names), None)

    def number(self, *names: str, call: Call | None = None) -> int | None:
        """Return the number in an option: the first of a range, the last part of gpu:TYPE:N."""
        option = self.option(*names, call=call)
        value = self.expand(option.value) if option else ""
        match = re.fullmatch(r"(?:[A-Za-z][\w:]*:)?(\d+)(?:-\d+)?(?:\(.*\))?", value)
        return int(match[1]) if match else None

    @cached_property
    def variables(self) -> dict[str, str]:
        """Return the last value of each variable that the script sets; the batch shell's override those of steps."""
        ordered = sorted(self.calls, key=lambda call: call.srun is None)
        given = {option.name: option.value for option in self.script.options if option.value.isdecimal()}
        known = {f"SLURM_{name}": given[option] for name, option in OF_OPTIONS.items() if option in given}
        return known | {variable.name: variable.value for call in ordered for variable in call.variables}

    @cached_property
    def placeholders(self) -> dict[int, str]:
        """Return what the user still has to replace, such as <options>, by line."""
        bare = ((number, re.sub(r"\"[^\"]*\"|'[^']*'|(?:^|\s)#.*", "", line)) for number, line in self.script.code)
        found = ((number, line, match) for number, line in bare if (match := _PLACEHOLDER.search(line)))
        read = r"[\w/-]+\.\w+> *[\w$./]"  # program <input.txt> output.txt
        return {number: match[0] for number, line, match in found if not re.match(read, line[match.start() + 1 :])}

    @cached_property
    def names(self) -> set[str]:
        """Return the names of all variables that the script sets, in any way."""
        exported = {name for call in self.calls for name in call.exports}
        names = {variable.name for variable, _ in self.settings} | exported
        for call in self.calls:
            words = [word.plain for word in call.words]
            if words[0] == "for":
                names |= set(words[1:2])
            if {"read", "mapfile", "readarray", "getopts", "printf"} & set(words[:3]):
                names |= {word for word in words if word.isidentifier()}
        sets = r"\$\{(\w+):?[=?]|\b(\w+)\+?=\(|\(\( *(\w+) *(?:[-+*/]?=[^=]|\+\+|--)"
        return names | {name for names in re.findall(sets, self.text) for name in names}

    @cached_property
    def unset(self) -> tuple[tuple[str, int], ...]:
        """Return variables that a shell expands but the script does not set: each once, where it is first used."""
        first: dict[str, int] = {}
        for call in (call for call in self.calls if "branch" not in call.places):
            for word in (*call.words, *(Word(name, call.line) for name in call.outputs)):
                text = re.sub(r"'[^']*'", "", word.text) if not call.inner and word.text[:1] != '"' else word.text
                for match in _USED.finditer(text):
                    name, default = match[1] or match[3], match[2] or ""
                    if name not in self.names and not default.startswith((":", "-", "+", "?")):
                        first.setdefault(name, word.line + text.count("\n", 0, match.start()))
        return tuple(first.items())

    def expand(self, text: str) -> str:
        """Expand the variables that the script sets; others stay unchanged."""
        for _ in range(3):
            text = _REFERENCE.sub(lambda match: self.variables.get(match[1] or match[2], match[0]), text)
        return text

    @cached_property
    def steps(self) -> tuple[Call, ...]:
        """Return the calls of srun, one per line."""
        steps = [call for call in self.calls if call.srun is not None and not call.of_srun("het-group")]
        return tuple({call.line: call for call in reversed(steps)}.values())[::-1]

    def ranks_per_node(self, call: Call | None = None) -> int | None:
        """Return the tasks on each node; None if unknown."""
        tasks, nodes = self.number("ntasks", call=call), self.number("nodes", call=call)
        each = self.number("ntasks-per-node", call=call)
        if tasks is not None and nodes and (each is None or (call and call.of_srun("ntasks"))):
            return tasks // nodes if tasks % nodes == 0 else None
        return each

    def ranks(self, call: Call | None = None) -> int | None:
        """Return the total number of tasks; None if unknown."""
        each, nodes = self.number("ntasks-per-node", call=call), self.number("nodes", call=call)
        if self.option("ntasks", call=call):
            return self.number("ntasks", call=call)
        return each * nodes if each and nodes else each

    def gpus_per_node(self, call: Call | None = None) -> int | None:
        """Return the GPUs on each node for the job or a step; None if unknown."""
        gres = self.option("gres", call=call)
        if gres and (named := re.search(r"\bgpu(?::[\w.-]*[A-Za-z][\w.-]*)?(?::(\d+))?", gres.value)):
            return int(named[1] or 1)
        total, nodes = self.number("gpus"), self.number("nodes")
        if each := self.number("gpus-per-node", call=call):
            return each
        if each := self.number("gpus-per-task", call=call):
            return each * (self.ranks_per_node(call) or 0)
        return total // nodes if total and nodes else None

    def asks_for_gpus(self, call: Call | None = None) -> bool:
        """Return whether a step or the job gets GPUs: by an option, or because it gets whole nodes."""
        given = self.node_type is not None and self.node_type.gpus and not self.site.job.gpus and self.whole_nodes
        return bool(given) or self.option(*GPU_OPTIONS, call=call) is not None

    def sees_one_gpu(self, call: Call) -> bool:
        """Return whether Slurm shows each rank of a step a single GPU."""
        bound = self.option("gpu-bind", call=call)
        each = self.number("gpus-per-task", call=call) == 1 and "gpu-bind=none" not in self.text
        return each or (bound is not None and "single:1" in bound.value)

    @cached_property
    def whole_nodes(self) -> bool:
        """Return whether the job has exclusive nodes."""
        partition = self.option("partition")
        asked = self.option("exclusive") or "--exclusive" in self.site.job.lines
        return bool(asked or (partition and partition.value in self.site.job.exclusive))

    @cached_property
    def several_nodes(self) -> bool:
        """Return whether the job, or a step of it, requests more than one node."""
        return max([self.number("nodes") or 1, *(self.number("nodes", call=call) or 1 for call in self.steps)]) > 1

    @cached_property
    def node_type(self) -> NodeType | None:
        """Return the type of node that the job requests: by its partition or its qos, or else the default one."""
        partition, qos, types = self.option("partition"), self.option("qos"), self.site.nodes.types
        kinds = [kind for kind in types if partition and partition.value in kind.partitions]
        kinds += [kind for kind in types if qos and kind.has_qos(qos.value)]
        kinds += [kind for kind in types if kind.name == self.site.nodes.default]
        return next(iter((*kinds, *types)), None)

    @cached_property
    def ranked(self) -> tuple[Call, ...]:
        """Return the calls in which srun starts ranks of a program in a container."""
        started = (call for call in self.calls if call.srun is not None and call.container and call.program)
        return tuple(call for call in started if is_distributed(call) or call.name.startswith("python"))

    @cached_property
    def loads(self) -> tuple[tuple[int, str], ...]:
        """Return the loaded modules: line and name, as typed."""
        calls = (call for call in self.calls if call.name in ("module", "ml"))
        return tuple((word.line, self.expand(word.plain)) for call in calls for word in _loaded(call))


def is_distributed(call: Call) -> bool:
    """Return whether a call starts ranks that communicate."""
    words = [word.name for word in call.program]
    first = words[:1] if call.name in TOOLS else words[:2]
    return any(word in DISTRIBUTED for word in first) or any(word in _TORCHRUN_MODULES for word in words)


def launchers_of(call: Call) -> list[str]:
    """Return the launchers that a call starts: as its program, or through the run script."""
    words = [word.name for word in call.program]
    asked = re.findall(r"--launcher[= ](\w+)", call.arguments()) if words[:1] == ["conda-python-distributed"] else []
    asked += ["torchrun"] if any(word in _TORCHRUN_MODULES for word in words) else []
    asked += ["accelerate"] if "accelerate.commands.launch" in words else []
    started = words[:2] if not words[1:2] or words[0] != "accelerate" or words[1] == "launch" else []
    return [name for name in LAUNCHERS if name in started + asked]


def _loaded(call: Call) -> Sequence[Word]:
    """Return the modules that a call of module or ml loads; `restore` means those of a collection."""
    words = [word for word in call.program[1:] if not word.plain.startswith("-")]
    verb = words[0].plain if words else ""
    if verb in ("r", "restore"):
        return words[:1]
    if _LOADS.fullmatch(verb):
        return words[1:]
    return words if call.name == "ml" and not MODULE_COMMAND.match(verb) else ()


def is_read(text: str, variable: str) -> bool:
    r"""Return whether the batch shell expands a variable in a word as written: not in '...', not after a backslash."""
    quoted = r"<<-?[ \t]*(?P<quote>['\"])(\w+)(?P=quote)(?s:.*?)\n\s*\2\n|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'"
    outside = re.sub(quoted, lambda match: re.sub(r"^<<.*|\\.|^'.*'$", "", match[0], flags=re.DOTALL), text)
    return re.search(rf"\$\{{?{variable}\b", outside) is not None


Rule = Callable[[ScriptContext], Iterator[Fault]]
