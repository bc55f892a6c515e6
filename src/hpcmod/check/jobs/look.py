"""What the rules for batch scripts look at: the script, its calls, what they ask for, and the machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from hpcmod.check.jobs.calls import Call, read_calls
from hpcmod.check.jobs.script import BatchScript, Option, Word, read_batch_script
from hpcmod.model.site import NodeType, Site

Fault = tuple[int, str, str]
"""Line, what is wrong, cure."""

LAUNCHERS = ("torchrun", "deepspeed", "accelerate")
DISTRIBUTED = ("conda-python-distributed", *LAUNCHERS)
TOOLS = {
    "basename", "cat", "cd", "chmod", "cp", "date", "dirname", "du", "echo", "env", "exit", "free", "grep", "head",
    "hostname", "kill", "ln", "ls", "lscpu", "mkdir", "mktemp", "module", "ml", "mv", "nvidia-smi", "printenv",
    "printf", "pwd", "rm", "rmdir", "rocm-smi", "rsync", "scontrol", "sed", "set", "sleep", "sort", "tail", "tar",
    "tee", "test", "touch", "trap", "true", "ulimit", "uname", "uniq", "unset", "wait", "wc", "[", "[[", "if", "fi",
    "for", "done", "esac", "}",
}  # fmt: skip
"""What a script runs besides: one core is enough for it, and it needs no library of the user's."""
_LOADS = ("load", "add", "swap", "switch", "try-load")
_LOADS_NOTHING = (
    "avail", "av", "del", "help", "key", "keyword", "list", "overview", "purge", "reset", "rm", "save", "savelist",
    "show", "spider", "unload", "unuse", "use", "whatis",
)  # fmt: skip
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Look:
    """One batch script on one machine."""

    script: BatchScript
    calls: tuple[Call, ...]
    site: Site

    @classmethod
    def at(cls, text: str, site: Site) -> Look:
        """Read a batch script."""
        script = read_batch_script(text)
        return cls(script, read_calls(script), site)

    def option(self, *names: str, call: Call | None = None) -> Option | None:
        """Find an option by any of its names: of the srun of a call, else of the script."""
        found = [option for option in (call.srun or ()) if option.name in names] if call else []
        found = found or [option for option in self.script.options if option.name in names]
        return found[-1] if found else None

    def number(self, *names: str, call: Call | None = None) -> int | None:
        """Read the number that an option gives; of a range the first, of gpu:TYPE:N the last part."""
        option = self.option(*names, call=call)
        found = re.fullmatch(
            r"(?:[A-Za-z][\w:]*:)?(\d+)(?:-\d+)?(?:\(.*\))?", self.expand(option.value) if option else ""
        )
        return int(found[1]) if found else None

    @cached_property
    def variables(self) -> dict[str, str]:
        """Variables that the script sets for itself, each as it is written last."""
        return {one.name: one.value for call in self.calls if call.srun is None for one in call.variables}

    def expand(self, text: str) -> str:
        """Put in the values of variables that the script sets; others stay as they are."""
        for _ in range(3):
            text = _REFERENCE.sub(lambda found: self.variables.get(found[1] or found[2], found[0]), text)
        return text

    @cached_property
    def steps(self) -> tuple[Call, ...]:
        """Calls of srun, one a line."""
        return tuple({call.line: call for call in reversed(self.calls) if call.srun is not None}.values())[::-1]

    def nodes(self, call: Call | None = None) -> int | None:
        """Nodes of a step, or of the job."""
        return self.number("nodes", call=call)

    def ranks_per_node(self, call: Call | None = None) -> int | None:
        """Tasks that each node gets, where that can be told."""
        tasks, nodes = self.number("ntasks", call=call), self.nodes(call)
        each = self.number("ntasks-per-node", "tasks-per-node", call=call)
        if tasks is not None and nodes and (each is None or (call and _has(call.srun, "ntasks"))):
            return tasks // nodes if tasks % nodes == 0 else None
        return each

    def ranks(self, call: Call | None = None) -> int | None:
        """Tasks in all, where that can be told."""
        each, nodes = self.number("ntasks-per-node", "tasks-per-node", call=call), self.nodes(call)
        return self.number("ntasks", call=call) or (each * nodes if each and nodes else each)

    def gpus_per_node(self) -> int | None:
        """GPUs that each node is to give, where that can be told."""
        gres = self.option("gres")
        named = re.search(r"\bgpu(?::[A-Za-z]\w*)?(?::(\d+))?", gres.value) if gres else None
        if named:
            return int(named[1] or 1)
        total, nodes, each = self.number("gpus"), self.nodes(), self.number("gpus-per-task")
        shared = each * (self.ranks_per_node() or 0) if each else (total // nodes if total and nodes else None)
        return self.number("gpus-per-node") or shared

    def node_type(self) -> NodeType | None:
        """Find the kind of node that the job asks for: by its partition or its qos, else the usual one."""
        partition, qos = self.option("partition"), self.option("qos")
        kinds = [kind for kind in self.site.node_types if partition and partition.value in kind.partitions]
        kinds += [kind for kind in self.site.node_types if qos and kind.has_qos(qos.value)]
        usual = [kind for kind in self.site.node_types if kind.name == self.site.default_node_type]
        return next(iter([*kinds, *usual, *self.site.node_types]), None)

    def is_distributed(self, call: Call) -> bool:
        """Say whether a call starts ranks that are to meet."""
        words = [word.plain.rpartition("/")[2] for word in call.program]
        return any(word in DISTRIBUTED for word in words[:1] + words[1:2]) or "torch.distributed.run" in words

    @cached_property
    def distributed(self) -> tuple[Call, ...]:
        """Calls that start ranks which are to meet."""
        return tuple(call for call in self.calls if self.is_distributed(call))

    @cached_property
    def loads(self) -> tuple[tuple[int, str], ...]:
        """Modules that are loaded: line and name, as typed."""
        calls = (call for call in self.calls if call.name in ("module", "ml"))
        return tuple((word.line, self.expand(word.plain)) for call in calls for word in _loaded(call))


def _has(options: Sequence[Option] | None, name: str) -> bool:
    return any(option.name == name for option in options or ())


def _loaded(call: Call) -> Sequence[Word]:
    """Names of the modules that a call of module or ml loads; `restore` stands for those of a collection."""
    words = [word for word in call.program[1:] if not word.plain.startswith("-")]
    verb = words[0].plain if words else ""
    if verb == "restore":
        return words[:1]
    if verb in _LOADS:
        return words[1:]
    return words if call.name == "ml" and verb not in _LOADS_NOTHING else ()


def is_unescaped(text: str, variable: str) -> bool:
    r"""Say whether the batch shell expands a variable in a word as written: not in '...', not behind a backslash."""
    outside = re.sub(r"\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'", _keep_double, text)
    return re.search(rf"\$\{{?{variable}\b", outside) is not None


def _keep_double(found: re.Match[str]) -> str:
    return re.sub(r"\\.", "", found[0]) if found[0].startswith('"') else ""


Rule = Callable[[Look], Iterator[Fault]]
