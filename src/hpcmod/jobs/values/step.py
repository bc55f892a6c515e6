"""One step of a job: how it is placed, the container and run script, and the cores of each rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hpcmod.compat.values.mpi import choose_mpi
from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.values.facts import COMMAND as COMMAND_LINE
from hpcmod.jobs.values.layout import Layout
from hpcmod.jobs.values.masks import cpu_masks
from hpcmod.jobs.values.request import ONE_PER_NODE, JobRequest, is_command
from hpcmod.machine.values.site import RAY, Site

PYTHON = "conda-python-distributed"
COMMAND = "run-in-env"
"""The run scripts that start a Python program and any other command."""

STARTS = ("one-per-rank", ONE_PER_NODE)
"""How the containers of a node start: one for each rank, or one in which the ranks are forked."""

_NO_BASH = " The image has no bash: no run script sets ranks, GPUs and caches."

_GPUS_OF_TASK = "--gpus-per-task="
_OF_RANKS = (_GPUS_OF_TASK, "--gpu-bind")
"""Flags of srun for ranks that are tasks; wrong with one task per node."""
_OF_EQUALS = "--ntasks-per-socket"
"""Flag of srun for one task per GPU; wrong for any other number of tasks."""


@dataclass(frozen=True)
class Step:
    """One step of a job: the scheduler's command, the container, and the program."""

    command: tuple[str, ...]
    """The scheduler's command and its flags."""
    container: tuple[str, ...]
    """Runtime, verb and flags; the image comes after them."""
    program: tuple[str, ...]
    why: str
    """Explanation of the flags, for people."""
    starter: str = ""
    """Run script that starts the container, outside of it; empty: none."""


def make_step(request: JobRequest, site: Site, layout: Layout) -> Step:
    """Return one step of a job with a given layout."""
    binding, why = _choose_binding(request, site, layout)
    mpi = choose_mpi(request.container.mpi, site.launcher, request.ranks.mpi)
    flags = [flag for flag in _choose_flags(site, layout) if not mpi or not flag.startswith("--mpi=")]
    distribution = site.launcher.distribution
    return Step(
        command=(
            *("srun", "--export=ALL", f"--kill-on-bad-exit={int(layout.launcher != RAY)}", f"--nodes={request.nodes}"),
            f"--ntasks-per-node={layout.tasks}",
            *([f"--cpus-per-task={layout.cpus}"] if layout.cpus else []),
            *([f"--mpi={mpi}"] if mpi else []),
            *flags,
            *([f"--distribution={distribution}"] if distribution else []),
            *([f"--cpu-bind={binding}"] if binding else []),
        ),
        container=_make_container(request, site, layout),
        program=tuple(_make_program(request, layout)),
        why=f"{why}{'' if request.container.has_bash else _NO_BASH}",
        starter=request.ranks.start if request.ranks.start == STARTS[1] and can_share(request, layout) else "",
    )


def can_share(request: JobRequest, layout: Layout) -> bool:
    """Return whether the ranks of a node can be forked in one container: several tasks that run Python."""
    return layout.by_tasks and layout.tasks > 1 and not is_command(request.program)


def _make_container(request: JobRequest, site: Site, layout: Layout) -> tuple[str, ...]:
    binds = [word for bind_path in request.container.binds for word in ("--bind", bind_path)]
    own = ("--pid",) if layout.launcher == RAY else ()  # `ray stop` ends all processes of Ray that it sees
    # run: only if that starts the program
    verb = site.launcher.verb if request.container.entry == COMMAND_LINE else "exec"
    return (request.container.runtime, verb, *own, *(site.gpu.runtime_flags if layout.gpus else ()), *binds)


def _without_python(program: tuple[str, ...]) -> tuple[str, ...]:
    return program[1:] if program[0] in ("python", "python3") else program


def _choose_flags(site: Site, layout: Layout) -> Iterator[str]:
    """Yield the site's flags that fit the tasks; a single task per node gets the GPUs of all its ranks."""
    gpus, tasks = layout.gpus, layout.tasks
    for flag in site.launcher.srun:
        if not layout.by_tasks and flag.startswith(_OF_RANKS):
            if gpus and flag.startswith(_GPUS_OF_TASK):
                yield f"{_GPUS_OF_TASK}{gpus}"
        elif gpus and flag.startswith(_GPUS_OF_TASK) and tasks > gpus:
            yield f"--gpus-per-node={gpus}"  # tasks share GPUs: there are fewer GPUs than tasks
        elif gpus and flag.startswith(_GPUS_OF_TASK) and tasks == 1:
            yield f"{_GPUS_OF_TASK}{gpus}"
        elif not flag.startswith(_OF_EQUALS) or (layout.by_tasks and tasks == gpus):
            yield flag


def _choose_binding(request: JobRequest, site: Site, layout: Layout) -> tuple[str, str]:
    """Return the value of srun's --cpu-bind, empty without one, and the reason."""
    kind = site.launcher.cpu_bind
    if layout.tasks == 1:
        unknown = ". Its number of cores is not known: set --cpus-per-task=N, here and above"
        return "", f"One task per node{', with all its cores' if layout.cpus else unknown}."
    if kind in ("none", ""):
        return "", "Slurm chooses the cores of each rank."
    if kind != "mask":
        return kind, f"Slurm binds each rank: {kind}."
    if request.ranks.cpus > 0:
        return "", f"No masks: each rank has the {request.ranks.cpus} CPUs that were requested."
    if not layout.whole:
        return "", "No masks: these need full nodes. Ranks that may use all cores bind themselves."
    try:
        masks = _make_masks(layout)
    except HpcmodError as err:
        return "", f"No masks: {err.message}."
    near = "the cores near its GPU, GPU 0 first" if layout.gpus else "its own cores"
    near += ", and a share of the others" * (0 < layout.tasks < layout.gpus)
    return f"mask_cpu:{','.join(masks)}", f"Each rank of a node gets {near}."


def _make_masks(layout: Layout) -> tuple[str, ...]:
    """Return the masks for equal shares; with fewer ranks than GPUs, the remaining GPUs' cores are divided too."""
    gpus, tasks = layout.gpus, layout.tasks
    if tasks >= gpus:
        return cpu_masks(layout.node, tasks)
    if gpus % tasks:
        raise BadInputError(f"{tasks} ranks cannot share {gpus} GPUs equally", "Ask for another number of ranks.")
    masks = [int(mask, 16) for mask in cpu_masks(layout.node, gpus)]
    return tuple(hex(sum(masks[rank::tasks])) for rank in range(tasks))


def _make_program(request: JobRequest, layout: Layout) -> Iterator[str]:
    if not request.container.has_bash:
        yield from _make_bare_program(request, layout)
        return
    if is_command(request.program) and layout.launcher != RAY:
        yield COMMAND
    else:
        yield PYTHON
        if not layout.by_tasks:
            yield from ("--launcher", layout.launcher)
            yield from ("--no-python",) if is_command(request.program) else ()
            if request.ranks.per_node and request.ranks.per_node != layout.gpus:
                yield from ("--ranks-per-node", str(request.ranks.per_node))
        if not layout.by_tasks and request.program[0].startswith("--"):  # an option of Python: `--` ends the script's
            yield "--"
    yield from _without_python(request.program)


def _make_bare_program(request: JobRequest, layout: Layout) -> tuple[str, ...]:
    """Return the command line for an image without bash, in which no run script can start it."""
    if not layout.by_tasks or request.ranks.start == STARTS[1]:
        raise BadInputError(
            "the image has no bash, which the run scripts that start ranks need",
            "Leave out --launcher and --start: srun starts each rank.",
        )
    return request.program if is_command(request.program) else ("python3", *_without_python(request.program))
