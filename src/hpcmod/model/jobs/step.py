"""One srun of a job: its flags, the container and run script, and the cores of each rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hpcmod.errors import BadInputError, HpcmodError
from hpcmod.model.jobs.layout import Layout
from hpcmod.model.jobs.masks import cpu_masks
from hpcmod.model.jobs.mpi import choose_mpi
from hpcmod.model.jobs.request import JobRequest, is_command, is_command_line
from hpcmod.model.site import Site

PYTHON = "conda-python-distributed"
COMMAND = "run-in-env"
"""The run scripts that start a Python program and any other command."""

_GPUS_OF_TASK = "--gpus-per-task="
_OF_RANKS = (_GPUS_OF_TASK, "--gpu-bind")
"""Flags of srun for ranks that Slurm starts; wrong with one task per node."""
_OF_EQUALS = "--ntasks-per-socket"
"""Flag of srun for one task per GPU; wrong for any other number of tasks."""

_ALL_CORES = ", with all its cores"
_FEW_CORES = ". Its number of cores is not known: set --cpus-per-task=N, here and above"


@dataclass(frozen=True)
class Step:
    """One srun: its flags, the container, and the command."""

    srun: tuple[str, ...]
    container: tuple[str, ...]
    """Runtime, verb and flags; the image comes after them."""
    program: tuple[str, ...]
    why: str
    """Explanation of the flags, for people."""


def make_step(request: JobRequest, site: Site, layout: Layout) -> Step:
    """Return one srun of a job with a given layout."""
    bind, why = _choose_binding(request, site, layout)
    shares = f"--ntasks={request.ranks}" if request.ranks else f"--ntasks-per-node={layout.tasks}"
    mpi = choose_mpi(request.image_mpi, site.launcher, request.mpi)
    flags = list(_choose_flags(site, layout))
    if mpi:
        flags = [f"--mpi={mpi}", *(flag for flag in flags if not flag.startswith("--mpi="))]
    srun = [
        f"--nodes={request.nodes}",
        shares,
        *([f"--cpus-per-task={layout.cpus}"] if layout.cpus else []),
        *flags,
    ]
    if site.launcher.distribution:
        srun.append(f"--distribution={site.launcher.distribution}")
    return Step(
        srun=("--export=ALL", "--kill-on-bad-exit=1", *srun, *bind),
        container=_make_container(request, site, layout),
        program=tuple(_make_program(request, layout)),
        why=why,
    )


def make_single_step(program: tuple[str, ...], request: JobRequest, site: Site, layout: Layout) -> Step:
    """Return the srun of a program that runs once, with the job's cores and GPUs on the first node."""
    cpus = layout.cpus * layout.tasks
    gpus = [f"--gpus-per-node={layout.gpus}"] if layout.gpus and site.job.gpus else []
    script, words = (COMMAND, program) if is_command_line(program) else (PYTHON, _without_python(program))
    return Step(
        srun=("--export=ALL", "--nodes=1", "--ntasks=1", *([f"--cpus-per-task={cpus}"] if cpus else []), *gpus),
        container=_make_container(request, site, layout),
        program=(script, *words),
        why="Once, before the ranks start.",
    )


def _make_container(request: JobRequest, site: Site, layout: Layout) -> tuple[str, ...]:
    binds = [word for bind_path in request.binds for word in ("--bind", bind_path)]
    return (request.runtime, site.launcher.verb, *(site.runtime_flags if layout.gpus else ()), *binds)


def _without_python(program: tuple[str, ...]) -> tuple[str, ...]:
    return program[1:] if program[0] in ("python", "python3") else program


def _choose_flags(site: Site, layout: Layout) -> Iterator[str]:
    """Return the site's flags that fit the tasks; a single task per node gets the GPUs of all its ranks."""
    for flag in site.launcher.srun:
        if layout.launcher != "srun" and flag.startswith(_OF_RANKS):
            if layout.gpus and flag.startswith(_GPUS_OF_TASK):
                yield f"{_GPUS_OF_TASK}{layout.gpus}"
        elif layout.gpus and flag.startswith(_GPUS_OF_TASK) and layout.tasks > layout.gpus:
            yield f"--gpus-per-node={layout.gpus}"  # tasks share GPUs: there are fewer GPUs than tasks
        elif layout.gpus and flag.startswith(_GPUS_OF_TASK) and layout.tasks == 1:
            yield f"{_GPUS_OF_TASK}{layout.gpus}"
        elif not flag.startswith(_OF_EQUALS) or (layout.launcher == "srun" and layout.tasks == layout.gpus):
            yield flag


def _choose_binding(request: JobRequest, site: Site, layout: Layout) -> tuple[tuple[str, ...], str]:
    """Return the flag that binds ranks to cores, and the reason."""
    kind = site.launcher.cpu_bind
    if layout.tasks == 1:
        return (), f"One task per node{_ALL_CORES if layout.cpus else _FEW_CORES}."
    if kind in ("none", ""):
        return (), "Slurm chooses the cores of each rank."
    if kind != "mask":
        return (f"--cpu-bind={kind}",), f"Slurm binds each rank: {kind}."
    if request.cpus > 0:
        return (), f"No masks: each rank has the {request.cpus} CPUs that were requested."
    if request.ranks or not layout.whole:
        return (), "No masks: these need full nodes and equal shares. Ranks that may use all cores bind themselves."
    try:
        masks = _make_masks(layout)
    except HpcmodError as err:
        return (), f"No masks: {err.message}."
    near = "the cores near its GPU, GPU 0 first" if layout.gpus else "its own cores"
    near += ", and a share of the others" * (0 < layout.tasks < layout.gpus)
    return (f"--cpu-bind=mask_cpu:{','.join(masks)}",), f"Each rank of a node gets {near}."


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
    if is_command(request):
        yield COMMAND
    else:
        yield PYTHON
        if layout.launcher != "srun":
            yield from ("--launcher", layout.launcher)
            if request.ranks_per_node and request.ranks_per_node != layout.gpus:
                yield from ("--ranks-per-node", str(request.ranks_per_node))
        yield from request.script_options
        ours = layout.launcher != "srun" or request.script_options
        if ours and request.program[0].startswith("--"):  # a Python option: `--` ends the script's own
            yield "--"
    yield from _without_python(request.program)
