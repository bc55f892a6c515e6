"""The schedulers that hpcmod knows, by the name that a site profile gives them."""

from __future__ import annotations

from hpcmod.model.jobs.pbs import Pbs
from hpcmod.model.jobs.scheduler import Scheduler
from hpcmod.model.jobs.slurm import Slurm
from hpcmod.model.site import Site

SCHEDULERS: dict[str, Scheduler] = {"slurm": Slurm(), "pbs": Pbs()}
"""A new one is a line here, and a module beside slurm.py."""


def scheduler_of(site: Site) -> Scheduler:
    """Return the scheduler of a site."""
    return SCHEDULERS[site.job.scheduler]
