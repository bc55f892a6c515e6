"""Render a job of a container as an example for the catalogue's pages."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmod.core.errors import HpcmodError
from hpcmod.jobs.text.jobscript import render_jobscript
from hpcmod.jobs.values.job import make_job
from hpcmod.jobs.values.request import JobModule, JobRequest
from hpcmod.machine.values.site import Site

_PLACEHOLDERS = {"time": "01:00:00"}
"""Values of sbatch options; for other options, the option's name in capitals."""


def render_job_example(module: str, site: Site) -> Iterator[tuple[str, str]]:
    """Yield the title and the batch script of a job on two nodes; nothing if the site requires unknown values."""
    options = tuple((name, _PLACEHOLDERS.get(name, name.upper())) for name in site.job.required)
    try:
        plan = make_job(JobRequest(("train.py",), JobModule(module), nodes=2, options=options), site)
    except HpcmodError:
        return
    yield f"A job on two nodes of {site.name} (save it as train.sh, then run: sbatch train.sh)", render_jobscript(plan)
