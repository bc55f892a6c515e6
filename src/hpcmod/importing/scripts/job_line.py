"""Write the `hpcmod job` line for a step of a batch script, and report what it does not have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hpcmod.check.jobs.reading.options import Option
from hpcmod.importing.carried import Findings, shown_text
from hpcmod.importing.scripts.starts import ContainerStart
from hpcmod.model.site import LAUNCHERS
from hpcmod.render.quote import sh_word

CARRIED: Mapping[str, str] = {
    "nodes": "-N",
    "ntasks": "-n",
    "ntasks-per-node": "--ranks-per-node",
    "tasks-per-node": "--ranks-per-node",
    "cpus-per-task": "--cpus",
    "account": "-A",
    "qos": "-q",
    "time": "-t",
    "partition": "-p",
    "constraint": "-C",
    "reservation": "--reservation",
    "job-name": "-J",
    "output": "--output",
    "error": "--error",
    "chdir": "--chdir",
    "array": "--array",
    "dependency": "--dependency",
    "network": "--network",
    "sockets-per-node": "--sockets-per-node",
    "mpi": "--mpi",
    "gpus-per-node": "--gpus",
}
"""Options of sbatch and srun, and the option of `hpcmod job` with the same meaning."""

_BY_PROFILE = "hpcmod job chooses it by the site profile"
CHANGED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("cpu-bind", "gpu-bind", "mem-bind", "distribution", "hint", "threads-per-core", "accel-bind"),
            *("ntasks-per-socket", "ntasks-per-core", "gpus-per-task", "gpus-per-socket", "ntasks-per-gpu"),
            *("cpus-per-gpu", "gpus", "exact", "exclusive"),
        ),
        _BY_PROFILE,
    ),
    "export": "hpcmod job passes your whole environment",
    "requeue": "hpcmod job --requeue-on USR1@120 requeues after a checkpoint",
    "signal": "hpcmod job --requeue-on SIGNAL@SECONDS sends a signal to the ranks",
}
"""Options with another effect than before, and which."""

SAME = frozenset(
    (
        *("kill-on-bad-exit", "quiet", "verbose", "label", "unbuffered", "parsable", "overlap", "input"),
        *("K", "Q", "v", "l", "u"),
    )
)
"""Options that hpcmod job sets anyway, or that only affect messages."""

OF_CONTAINERS = ("image", "volume", "module", "container-", "no-container-")
"""Options of Shifter and Pyxis, which describe the container; a dash at the end: what begins so."""

NOT_CARRIED: Mapping[str, str] = {
    "multi-prog": "start each program in a job of its own, or with --then",
    "pty": "use salloc and hpcmod launch for interactive work",
    "wrap": "write the program after -- of hpcmod job",
}
"""Options that cannot be passed to sbatch by `hpcmod job`, and what to do instead."""

_VALUE = re.compile(r"[A-Za-z0-9_.,:=@%+*/?\[\]()|&-]+")  # of options in a batch script, see JobRequest
_COUNTS = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "mpi")
"""Options of a step that take the place of the job's."""
_GPUS = re.compile(r"(?:gres/)?gpu(?::[A-Za-z][\w.-]*)?(?::(\d+))?")
_PYTHON = ("python", "python3")


def read_job_options(options: Iterable[Option], start: ContainerStart, said: Findings) -> tuple[str, ...]:
    """Return the options of `hpcmod job` for the #SBATCH lines of a script and a step of it."""
    chosen: dict[str, str] = {}
    more: list[str] = []
    for option in options:
        _read_option(option, "", chosen, more, said)
    for option in start.launcher or ():
        _read_option(option, "srun ", chosen, more, said)
    ranks = [after for word, after in zip(start.before, start.before[1:]) if word in ("-n", "-np", "--np")]
    if start.launcher is None and ranks and ranks[0].isdigit():
        chosen["-n"] = ranks[0]
    if chosen.get("-n") and "--ranks-per-node" in chosen:
        del chosen["-n"]
    words = [
        word for name, value in chosen.items() for word in ([name, value] if len(name) == 2 else [f"{name}={value}"])
    ]
    return (*words, *more)


def _read_option(option: Option, of: str, chosen: dict[str, str], more: list[str], said: Findings) -> None:
    name, value = option.name, option.value
    shown = shown_text(f"the option {of}--{name}{f'={value}' if value else ''}")
    gpus = _GPUS.fullmatch(value) if name in ("gres", "tres-per-node") else None
    if name in SAME or is_of_containers(name):
        return
    if gpus:
        chosen["--gpus"] = gpus[1] or "1"
    elif name in CARRIED and (not of or name in _COUNTS):
        name = CARRIED[name]
        if not _VALUE.fullmatch(value) or (name in ("-N", "-n", "--cpus", "--gpus") and not value.isdigit()):
            said.left_out.append(f"{shown}: hpcmod job cannot take this value")
        else:
            if of and chosen.get(name, value) != value:
                said.changed.append(f"{shown}: the job asks for what this step uses, not for {name} {chosen[name]}")
            chosen[name] = value
    elif name in CHANGED:
        said.changed.append(f"{shown}: {CHANGED[name]}")
    elif name in NOT_CARRIED:
        said.left_out.append(f"{shown}: {NOT_CARRIED[name]}")
    elif of:
        said.left_out.append(f"{shown}: hpcmod job has no such option for a step")
    elif value and not _VALUE.fullmatch(value):
        said.left_out.append(f"{shown}: hpcmod job cannot take this value")
    else:
        more.append(f"--sbatch=--{name}{f'={value}' if value else ''}")


def is_of_containers(name: str) -> bool:
    """Return whether an option of sbatch or srun describes a container of Shifter or Pyxis."""
    return any(name == one or (one.endswith("-") and name.startswith(one)) for one in OF_CONTAINERS)


def exported_variables(start: ContainerStart) -> Iterator[tuple[str, str]]:
    """Yield the variables in `srun --export=ALL,NAME=VALUE`."""
    for option in start.launcher or ():
        for pair in option.value.split(",") if option.name == "export" else ():
            name, equals, value = pair.partition("=")
            if equals:
                yield name, value


def read_program(start: ContainerStart, said: Findings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return options of `hpcmod job`, and its program; report what is lost of the command."""
    program = start.program
    is_launcher = len(start.before) == 3 and start.launcher is None and start.before[1] in ("-n", "-np", "--np")
    if start.before and not is_launcher:
        said.left_out.append(
            f"the words {shown_text(' '.join(start.before))} before {start.runtime}: hpcmod job starts the ranks, and "
            "binds their cores and GPUs"
        )
    options: tuple[str, ...] = ()
    name = program[0].rpartition("/")[2] if program else ""
    at = next((at for at, word in enumerate(program) if word.endswith(".py")), None)
    launched = LAUNCHERS[1:] if len(LAUNCHERS) > 1 else ()
    if name in launched and at is not None:
        if program[1:at]:
            said.left_out.append(f"the options {shown_text(' '.join(program[1:at]))} of {name}: hpcmod job sets them")
        options, program = ("--launcher", name), program[at:]
    elif program[:1] and program[0] in _PYTHON and len(program) > 1:
        program = program[1:]
    unknown = [word for word in program if re.search(r"[$`]", word)]
    if unknown:
        said.left_out.append(
            f"variables and commands in {shown_text(' '.join(unknown))}: hpcmod job does not expand them in its "
            "program; write the value"
        )
    return options, program


def job_line(
    module: str, options: Sequence[str], variables: Mapping[str, str], program: Sequence[str], then: Sequence[str]
) -> str:
    """Return the command line."""
    given = [f"--env={name}={value}" for name, value in variables.items()]
    later = [f"--then={words}" for words in then]
    words = ["hpcmod", "job", module, *options, *given, *later, "--", *program]
    return " ".join(map(sh_word, words))
