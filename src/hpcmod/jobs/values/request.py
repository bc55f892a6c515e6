"""A user's job request: nodes, ranks, options of sbatch, files to stage and the program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import COMMAND
from hpcmod.core.values.text import check_plain
from hpcmod.jobs.values.requeue import Requeue
from hpcmod.machine.values.site import LAUNCHERS

CHECKS = ("stop", "resubmit")
"""What a job does if one of its nodes should not be used: end, or end and submit itself again without the node."""

SHELLS = ("bash", "sh", "zsh")
"""Programs that expand variables in the word after -c."""

ONE_PER_NODE = "one-per-node"
"""How containers may start: one per node, in which its ranks are forked."""

_STAGED = re.compile(r".+\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|tzst|squashfs|sqsh|sqfs)")
_ANY_VALUE = re.compile(r"[A-Za-z0-9_.,:=@%+*/?\[\]()|&-]+")

_LAUNCHER_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "deepspeed": "deepspeed",
}
"""Python modules that are launchers, with the launcher's name."""


@dataclass(frozen=True)
class JobModule:
    """A module as a batch script loads it, whatever shell the script starts in."""

    name: str
    """Argument of `module load`: the full name if known; empty: no module is loaded."""
    trees: tuple[str, ...] = ()
    """Directories for `module use`."""
    unused: tuple[str, ...] = ()
    """Directories for `module unuse`: their copy of the module would otherwise be loaded."""
    sha256: str = ""
    """sha256 of the image; empty: not known."""
    source: str = ""
    """Source of the image, with its digest; empty: not known."""
    packages: str = ""
    """File of the user's packages that it has; empty: none."""
    choice: tuple[tuple[str, str], ...] = ()
    """Variables that choose them, as set when the job is written."""
    init: str = ""
    """File that defines the `module` command if the shell lacks it; empty: not known."""
    modulecmd: str = ""
    """Program of Environment Modules behind the `module` command, if there is no such file."""
    path: str = ""
    """Directory of the container runtime, if it is not a system directory."""


class JobContainer(NamedTuple):
    """How a job's container is started, and what is known of its image."""

    runtime: str = "singularity"
    binds: tuple[str, ...] = ()
    mpi: str = ""
    """The MPI of its programs, as named in hpcmod.compat.values.mpi; empty: not known, or none."""
    has_bash: bool = True
    """Whether it has bash; without it, no run script can run in it."""
    entry: str = COMMAND
    """What its run script does with a command line, as `ImageFacts.entry`."""


class Ranks(NamedTuple):
    """How many ranks a job has on each node, and how they start; 0, -1 and empty mean what fits the machine."""

    per_node: int = 0
    gpus: int = -1
    """GPUs per node; -1: all that the node type has."""
    cpus: int = -1
    """CPUs per task; -1: an equal share of the usable cores; 0: left to Slurm."""
    launcher: str = ""
    mpi: str = ""
    """How tasks and the image's MPI connect; empty: whatever the image's MPI needs."""
    start: str = ""
    """How containers start, one of hpcmod.jobs.values.step.STARTS; empty: one per rank."""


class Staging(NamedTuple):
    """What a job copies to each of its nodes."""

    place: str = ""
    """Where to stage the image: nvme or ram; empty: it is not staged."""
    data: tuple[str, ...] = ()
    """Archives and squashfs files to copy, too."""
    why: tuple[str, ...] = ()
    """Why the image is staged or not, in lines; empty if the user decided."""


@dataclass(frozen=True)
class JobRequest:
    """A user's request; empty values mean what fits the machine."""

    program: tuple[str, ...]
    """A Python file and its arguments, after any options of Python; or a command in the image."""
    module: JobModule = JobModule("")
    container: JobContainer = JobContainer()  # noqa: RUF009 - a named tuple never changes
    nodes: int = 1
    node_type: str = ""
    ranks: Ranks = Ranks()  # noqa: RUF009 - a named tuple never changes
    options: tuple[tuple[str, str], ...] = ()
    """Options of sbatch that `hpcmod job` has itself, by their long names."""
    more: tuple[str, ...] = ()
    """Further options of sbatch, passed unchanged."""
    staging: Staging = Staging()  # noqa: RUF009 - a named tuple never changes
    variables: tuple[tuple[str, str], ...] = ()
    """Variables that the user sets for the ranks."""
    proxy: bool = False
    requeue: Requeue | None = None
    """What to do shortly before the time limit; None: nothing."""
    check: str = ""
    """What to do if a node should not be used, one of CHECKS; empty: the nodes are not checked."""

    def option(self, name: str) -> str:
        """Return the value of an option of sbatch; empty if not given."""
        return dict(self.options).get(name, "")


def check_request(request: JobRequest) -> None:
    """Check that a request can be written into a batch script and asks for something.

    Raises BadInputError for the first error found.
    """
    check_values([*(value for _, value in request.options), *request.more, request.module.name, request.ranks.mpi])
    for word in (*request.program, *request.staging.data, *request.container.binds):
        check_plain(word, "the command line")
    for name, value in request.variables:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise BadInputError(f"--env {name!r} is not a valid variable name", "Write --env NAME=VALUE.")
        check_plain(value, f"--env {name}")
    if request.nodes < 1 or request.ranks.per_node < 0 or request.ranks.gpus < -1:
        raise BadInputError("nodes, ranks and GPUs are counted from 1", "Leave out what you do not want to choose.")
    for name in request.staging.data:
        if not _STAGED.fullmatch(name):
            raise BadInputError(f"{name} cannot be staged", "Pack it as NAME.tar, NAME.tar.gz or NAME.squashfs.")
    if not request.program:
        raise BadInputError("no program to run", "Add it at the end: ... -- train.py ARGUMENTS")
    launcher = _find_launcher(request.program)
    if launcher:
        option = f"--launcher {launcher} " if launcher in LAUNCHERS else ""  # DeepSpeed reads the variables of a rank
        raise BadInputError(
            f"{' '.join(request.program[:3])}: {launcher} is a launcher, but hpcmod starts the ranks itself",
            f"Write {option}-- train.py ARGUMENTS",
        )


def check_values(values: Iterable[str]) -> None:
    """Check that values can be written into a batch script; raises BadInputError for the first that cannot."""
    bad = [value for value in values if value and not _ANY_VALUE.fullmatch(value)]
    if bad:
        raise BadInputError(f"{bad[0]!r} is not allowed in a batch script", "Leave out blanks, quotes and `$`.")


def _find_launcher(program: tuple[str, ...]) -> str:
    """Return the name of the launcher that a program is, run directly or with `python -m`; empty if it is none."""
    first = program[0].rpartition("/")[2]
    if first in (*LAUNCHERS, "deepspeed"):
        return first
    if is_command(program):
        return ""
    options = [number for number, word in enumerate(program) if word == "-m" and number + 1 < len(program)]
    scripts = [number for number, word in enumerate(program) if word.endswith(".py")]
    if not options or (scripts and scripts[0] < options[0]):  # -m after the program's file is one of its arguments
        return ""
    return _LAUNCHER_MODULES.get(program[options[0] + 1], "")


def is_command(program: tuple[str, ...]) -> bool:
    """Return whether the first word is a command in the image rather than a file or an option for its Python."""
    first = program[0]
    return not (first.startswith("-") or first.endswith(".py") or first in ("python", "python3"))


def has_shell(program: tuple[str, ...]) -> bool:
    """Return whether a shell in each rank reads the command line, and expands its variables."""
    return any(word.rpartition("/")[2] in SHELLS and option == "-c" for word, option in zip(program, program[1:]))
