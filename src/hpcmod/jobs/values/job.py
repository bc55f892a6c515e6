"""Plan a job for a batch script from the user's request and the machine's rules."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hpcmod.compat.values.mpi import choose_mpi, explain_mpi
from hpcmod.core.values.facts import COMMAND
from hpcmod.jobs.values.layout import Layout, choose_partition, make_layout
from hpcmod.jobs.values.limits import check_limits
from hpcmod.jobs.values.network import choose_network, explain_network
from hpcmod.jobs.values.request import JobModule, JobRequest, check_request
from hpcmod.jobs.values.requeue import Requeue
from hpcmod.jobs.values.review import review_job
from hpcmod.jobs.values.slurm import (
    Directive,
    check_options,
    check_scheduler,
    merge_constraint,
    requeue_directives,
    spell_options,
    value_of,
)
from hpcmod.jobs.values.staging import find_places
from hpcmod.jobs.values.step import Step, make_step
from hpcmod.machine.values.site import RAY, Site, StagePlace


@dataclass(frozen=True)
class JobPlan:
    """The complete content of a batch script."""

    module: JobModule
    name: str
    """Job name, safe as part of a file name."""
    site: str
    title: str
    directives: tuple[Directive, ...]
    commands: tuple[str, ...]
    """Lines of bash that the site requires before the first step."""
    exports: tuple[tuple[str, str], ...]
    variables: tuple[tuple[str, str], ...]
    """Variables that the user sets for the ranks; they override those of the module and the image."""
    stage_image: str
    """Directory to stage the image to, may contain variables; empty: no staging."""
    stage_why: tuple[str, ...]
    """Why the image is staged or not, in lines; empty if the user decided."""
    stage_data: tuple[tuple[str, str], ...]
    """Pairs of directory and file."""
    check: str
    """What to do if a node should not be used, one of CHECKS; empty: the nodes are not checked."""
    step: Step
    requeue: Requeue | None
    """What the script does shortly before its time limit; None: nothing."""
    notes: tuple[str, ...]
    """Notes for the user."""


def make_job(request: JobRequest, site: Site) -> JobPlan:
    """Return the plan of a job.

    Raises BadInputError if the request does not fit the machine; LackingError if the machine has another scheduler than
    Slurm.
    """
    check_scheduler(site)
    check_request(request)
    check_options(dict(request.options), request.more, request.requeue)
    layout = make_layout(request, site)
    check_limits(request, site, layout)
    staging = request.staging
    place = find_places(site, staging.place)[0] if staging.place or staging.data else None
    return JobPlan(
        module=request.module,
        name=_plain(request.option("job-name") or _name_program(request)),
        site=site.name,
        title=_make_title(request, site, layout),
        directives=tuple(_make_directives(request, site, layout, place)),
        commands=site.job.command,
        exports=site.proxies if request.proxy else (),
        variables=request.variables,
        stage_image=place.directory if place and request.staging.place else "",
        stage_why=request.staging.why,
        stage_data=tuple((place.directory, name) for name in request.staging.data) if place else (),
        check=request.check,
        step=make_step(request, site, layout),
        requeue=request.requeue,
        notes=(*_make_notes(request, site), *review_job(request, site, layout)),
    )


def _make_title(request: JobRequest, site: Site, layout: Layout) -> str:
    kind = f" ({layout.node.name})" if site.nodes.types else ""
    where = f"{request.nodes} node{'s' * (request.nodes > 1)} of {site.name}{kind}"
    if layout.launcher == RAY:
        return f"{where}, a {RAY.title()} cluster for one program"
    if not layout.by_tasks:
        return f"{where}, on each {layout.launcher} starts the ranks"
    return f"{where}, ranks on each: {layout.tasks}"


def _make_directives(request: JobRequest, site: Site, layout: Layout, place: StagePlace | None) -> Iterator[Directive]:
    """Yield the options of the batch script, in order."""
    options = {**dict(request.options), "partition": choose_partition(request, site, layout.node)}
    yield Directive(f"--job-name={options.pop('job-name', '') or _name_program(request)}")
    if not value_of(request.more, "output", "o"):
        yield Directive("--output=%x-%j.out", "%x is the job name, %j the job ID")
    flag = place.flag if place else ""
    both = merge_constraint(options.get("constraint", ""), flag)
    if both:
        options["constraint"] = both
    yield from map(Directive, spell_options(options))
    yield Directive(f"--nodes={request.nodes}")
    yield Directive(f"--ntasks-per-node={layout.tasks}", _explain_tasks(layout))
    if layout.cpus:
        yield Directive(f"--cpus-per-task={layout.cpus}", _explain_cpus(site, layout))
    if layout.gpus and site.job.gpus:
        yield Directive(site.job.gpus.replace("{gpus}", str(layout.gpus)))
    if layout.memory_gib and not any(option.startswith("--mem") for option in (*site.job.lines, *request.more)):
        share = f"a node's share for {layout.gpus} of {layout.node.gpus} GPUs" if layout.gpus < layout.node.gpus else ""
        yield Directive(f"--mem={layout.memory_gib}G", share)
    network = choose_network(request, site, layout)
    if network:
        yield Directive(f"--network={network}", explain_network(network))
    yield from (Directive(line, f"required for every job on {site.name}") for line in site.job.lines)
    if place and flag and not both:
        yield Directive(flag, f"for staging to the nodes' {place.name}")
    if request.requeue:
        yield from requeue_directives(request.requeue)
    yield from map(Directive, request.more)


def _name_program(request: JobRequest) -> str:
    words = request.program[1:] if request.program[0] in ("python", "python3") else request.program
    named = [word for word in words if not word.startswith("-")]
    return _plain(posixpath.basename(named[0]).removesuffix(".py") if named else "job")


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "job"


def _explain_tasks(layout: Layout) -> str:
    if layout.launcher == RAY:
        return f"one task per node: each starts {RAY.title()}, and the first one the program"
    if not layout.by_tasks:
        return f"one task per node: {layout.launcher} starts the ranks"
    return "one rank per GPU" if layout.tasks == layout.gpus else ""


def _explain_cpus(site: Site, layout: Layout) -> str:
    if site.launcher.cpus_per_gpu and layout.gpus:
        return f"{site.launcher.cpus_per_gpu} for each GPU, as {site.name} requires"
    return "all cores that a job may use" + (", divided among the tasks" if layout.tasks > 1 else "")


def _make_notes(request: JobRequest, site: Site) -> Iterator[str]:
    yield from request.staging.why
    if request.staging.place and request.nodes == 1:
        yield "Staging rarely pays off on one node: it reads the complete image; a run without it reads only parts."
    if site.launcher.verb == "run" and request.container.entry != COMMAND:
        yield f"{site.name} starts images by their run script, but that of this image starts no programs: exec instead."
    wrong = explain_mpi(
        request.container.mpi, site.launcher, choose_mpi(request.container.mpi, site.launcher, request.ranks.mpi)
    )
    if wrong and not request.ranks.mpi:
        yield wrong
    if request.proxy and not site.proxies:
        yield f"--proxy has no effect: the profile of {site.name} has no [proxy]."
