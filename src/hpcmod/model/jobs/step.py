"""One step of a job: how it is placed, the container and run script, and the cores of each rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hpcmod.errors import BadInputError, HpcmodError
from hpcmod.model.jobs.layout import Layout
from hpcmod.model.jobs.masks import cpu_masks
from hpcmod.model.jobs.mpi import choose_mpi
from hpcmod.model.jobs.request import JobRequest, is_command, is_command_line
from hpcmod.model.jobs.scheduler import Placement
from hpcmod.model.jobs.schedulers import scheduler_of
from hpcmod.model.site import RAY, Site

PYTHON = "conda-python-distributed"
COMMAND = "run-in-env"
"""The run scripts that start a Python program and any other command."""

STARTS = ("one-per-rank", "one-per-node")
"""How the containers of a node start: one for each rank, or one in which the ranks are forked."""

_ALL_CORES = ", with all its cores"
_FEW_CORES = ". Its number of cores is not known: set {option}, here and above"


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
    scheduler, launcher = scheduler_of(site), site.launcher
    binding, masks, why = _choose_binding(request, site, layout)
    placement = Placement(
        nodes=request.nodes,
        ranks=request.ranks,
        tasks=layout.tasks,
        cpus=layout.cpus,
        gpus=layout.gpus,
        by_tasks=layout.by_tasks,
        flags=launcher.srun,
        mpi=choose_mpi(request.image_mpi, launcher, request.mpi),
        distribution=launcher.distribution,
        binding=binding,
        masks=masks,
    )
    return Step(
        command=scheduler.step(placement),
        container=_make_container(request, site, layout),
        program=tuple(_make_program(request, layout)),
        why=why,
        starter=request.start if request.start == STARTS[1] and can_share(request, layout) else "",
    )


def can_share(request: JobRequest, layout: Layout) -> bool:
    """Return whether the ranks of a node can be forked in one container: several tasks that run Python."""
    return (
        layout.by_tasks and layout.tasks > 1 and not is_command(request) and not request.script_option("profile-rank")
    )


def make_single_step(program: tuple[str, ...], request: JobRequest, site: Site, layout: Layout) -> Step:
    """Return the step of a program that runs once, with the job's cores and GPUs on the first node."""
    gpus = layout.gpus if site.job.gpus else 0
    script, words = (COMMAND, program) if is_command_line(program) else (PYTHON, _without_python(program))
    return Step(
        command=scheduler_of(site).single_step(cpus=layout.cpus * layout.tasks, gpus=gpus),
        container=_make_container(request, site, layout),
        program=(script, *words),
        why="Once, before the ranks start.",
    )


def _make_container(request: JobRequest, site: Site, layout: Layout) -> tuple[str, ...]:
    binds = [word for bind_path in request.binds for word in ("--bind", bind_path)]
    return (request.runtime, site.launcher.verb, *(site.runtime_flags if layout.gpus else ()), *binds)


def _without_python(program: tuple[str, ...]) -> tuple[str, ...]:
    return program[1:] if program[0] in ("python", "python3") else program


def _choose_binding(request: JobRequest, site: Site, layout: Layout) -> tuple[str, tuple[str, ...], str]:
    """Return how the scheduler binds ranks to cores, their masks if we choose them, and the reason."""
    kind, scheduler = site.launcher.cpu_bind, scheduler_of(site)
    if layout.tasks == 1:
        return (
            "",
            (),
            f"One task per node{_ALL_CORES if layout.cpus else _FEW_CORES.format(option=scheduler.cpus_option)}.",
        )
    if kind in ("none", ""):
        return "", (), f"{scheduler.title} chooses the cores of each rank."
    if kind != "mask":
        return kind, (), f"{scheduler.title} binds each rank: {kind}."
    if request.cpus > 0:
        return "", (), f"No masks: each rank has the {request.cpus} CPUs that were requested."
    if request.ranks or not layout.whole:
        return "", (), "No masks: these need full nodes and equal shares. Ranks that may use all cores bind themselves."
    try:
        masks = _make_masks(layout)
    except HpcmodError as err:
        return "", (), f"No masks: {err.message}."
    near = "the cores near its GPU, GPU 0 first" if layout.gpus else "its own cores"
    near += ", and a share of the others" * (0 < layout.tasks < layout.gpus)
    return "", masks, f"Each rank of a node gets {near}."


def _make_masks(layout: Layout) -> tuple[str, ...]:
    """Return the masks for equal shares; with fewer ranks than GPUs, the remaining GPUs' cores are divided too.

    Raises
    ------
    HpcmodError
        If the cores cannot be divided that way.
    """
    gpus, tasks = layout.gpus, layout.tasks
    if tasks >= gpus:
        return cpu_masks(layout.node, tasks)
    if gpus % tasks:
        raise BadInputError(f"{tasks} ranks cannot share {gpus} GPUs equally", "Ask for another number of ranks.")
    masks = [int(mask, 16) for mask in cpu_masks(layout.node, gpus)]
    return tuple(hex(sum(masks[rank::tasks])) for rank in range(tasks))


def _make_program(request: JobRequest, layout: Layout) -> Iterator[str]:
    if is_command(request) and layout.launcher != RAY:
        yield COMMAND
    else:
        yield PYTHON
        if not layout.by_tasks:
            yield from ("--launcher", layout.launcher)
            yield from ("--no-python",) if is_command(request) else ()
            if request.ranks_per_node and request.ranks_per_node != layout.gpus:
                yield from ("--ranks-per-node", str(request.ranks_per_node))
        yield from request.script_options
        ours = not layout.by_tasks or request.script_options
        if ours and request.program[0].startswith("--"):  # a Python option: `--` ends the script's own
            yield "--"
    yield from _without_python(request.program)
