"""Warnings about jobs that would run but look wrong: idle GPUs, ranks that do not know of each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.jobs.values.layout import Layout
from hpcmod.jobs.values.limits import read_hours
from hpcmod.jobs.values.request import SHELLS, JobRequest, has_shell, is_command
from hpcmod.jobs.values.step import STARTS, can_share
from hpcmod.machine.values.site import Site

_DEVICE = re.compile(r"(?:--(?:gpu|device|local[-_]rank)[= ]|\bcuda:)\$\{?(?:SLURM_LOCALID|LOCAL_RANK)\b")
_OF_RANK = re.compile(r"\$\{?(?:SLURM_|LOCAL_|PMI_|RANK\b|WORLD_SIZE\b|NODE_RANK\b)")


def review_job(request: JobRequest, site: Site, layout: Layout) -> Iterator[str]:
    """Yield warnings that the user should see before the job waits in the queue, a sentence or two each."""
    ranks = layout.tasks * request.nodes
    yield from _idle_gpus(request, layout)
    yield from _shared_gpus(request, site, layout)
    if layout.by_tasks and ranks > 1:
        yield from _ranks_apart(request, ranks)
    if request.ranks.start == STARTS[1] and not can_share(request, layout):
        yield f"--start {STARTS[1]} has no effect: it needs Python and several tasks per node."
    yield from _kept_variables(request, site)
    seconds = request.requeue.seconds if request.requeue else 0
    if 0 < read_hours(request.option("time")) * 3600 <= seconds:
        yield f"--requeue-on: the time limit is not longer than {seconds} s, so the signal comes when the job starts."
    reason = dict(site.launcher.discouraged).get(layout.launcher)
    if reason:
        yield f"{layout.launcher} is not recommended here: {reason}."
    ratio = site.launcher.cpus_per_gpu
    if request.ranks.cpus > 0 and ratio and layout.gpus and request.ranks.cpus * layout.tasks != ratio * layout.gpus:
        yield f"{site.name} expects {ratio} CPUs per GPU, so {ratio * layout.gpus} per node for {layout.gpus} GPUs."


def _idle_gpus(request: JobRequest, layout: Layout) -> Iterator[str]:
    tasks = layout.tasks
    if layout.by_tasks and 1 < tasks < layout.gpus:
        idle = layout.gpus - tasks
        yield (
            f"{tasks} ranks and {layout.gpus} GPUs on each node: {idle} GPU{'s' * (idle > 1)} of each node "
            f"{'stay' if idle > 1 else 'stays'} idle unless a rank uses several. Ask for --gpus {tasks}, or leave out "
            "the number of ranks."
        )


def _shared_gpus(request: JobRequest, site: Site, layout: Layout) -> Iterator[str]:
    if not layout.by_tasks or not 0 < layout.gpus < layout.tasks:
        return
    mps = "; without CUDA MPS they take turns" if site.gpu.vendor == "nvidia" else ""
    yield f"{layout.tasks} ranks share {layout.gpus} GPUs on each node{mps}; NCCL refuses two ranks on one GPU."


def _kept_variables(request: JobRequest, site: Site) -> Iterator[str]:
    """Yield a warning about variables of a rank in arguments that no shell reads."""
    kept = [] if has_shell(request.program) else [word for word in request.program if _OF_RANK.search(word)]
    if kept and site.gpu.per_rank == "one" and _DEVICE.search(" ".join(request.program)):
        yield f"No shell reads {kept[0]}, so the program gets it as it is; each rank sees one GPU, so write 0 instead."
    elif kept:
        starter = () if is_command(request.program) else ("conda-python-distributed",)
        line = " ".join((*starter, *request.program))
        yield f"No shell reads {kept[0]}, so the program gets it as it is. For each rank's own: -- bash -c '{line}'"


def _ranks_apart(request: JobRequest, ranks: int) -> Iterator[str]:
    """Yield a warning if a shell starts Python in each rank, bypassing the run script that sets its rank."""
    program = request.program
    script = program[2] if len(program) > 2 and program[0] in SHELLS and program[1] == "-c" else ""
    if re.search(r"(?:^|[\s;&|(])(?:python3?|torchrun|accelerate|deepspeed)\s", script):
        yield (
            f"{program[0]} -c starts its programs {ranks} times, and none of them knows its rank. Write "
            "conda-python-distributed instead of python, and start what runs once by a line of its own in the script."
        )
