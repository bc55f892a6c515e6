"""Lint finds nothing in the scripts that `hpcmod job` writes, for every machine and kind of job."""

from __future__ import annotations

from itertools import islice, product

import pytest

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.resources import site_profiles
from hpcmod.jobs.text.jobscript import render_jobscript
from hpcmod.jobs.values.job import make_job
from hpcmod.jobs.values.request import JobModule, JobRequest, Ranks, Staging
from hpcmod.lint.jobs.lint import lint_job
from hpcmod.machine.machine import load_site
from hpcmod.machine.values.site import LAUNCHERS, Site

OPTIONS = (("account", "x"), ("time", "10"), ("constraint", "x"))
EVERY = 37
"""Every how many requests one is tried."""


def qos_of(site: Site, kind: str) -> str:
    """Return a quality of service that allows nodes of a type."""
    qos = next((node.qos for node in site.nodes.types if node.name == kind), ())
    return next(iter(qos), "x").replace("*", "x")


SITES = {name: load_site(name, {}) for name in site_profiles()}


@pytest.mark.parametrize("name", [name for name, site in SITES.items() if site.job.scheduler == "slurm"])
@pytest.mark.slow
def test_our_own_scripts_break_none_of_our_rules(name: str) -> None:
    site = SITES[name]
    places = ("", *(place.name for place in site.job.stage_places))
    written = 0
    requests = product(
        ("", *(node.name for node in site.nodes.types)),
        ("", *LAUNCHERS),
        (-1, 1, 2),
        (1, 4),
        places,
        ("t.py", "./a.out"),
        (0, 1, 16),
    )
    for kind, launcher, gpus, nodes, stage, program, share in islice(requests, 0, None, EVERY):
        if launcher in dict(site.launcher.discouraged):  # the job already warns about it
            continue
        request = JobRequest(
            (program,),
            JobModule("X/1"),
            nodes=nodes,
            node_type=kind,
            ranks=Ranks(gpus=gpus, launcher=launcher, per_node=share),
            options=(*OPTIONS, ("qos", qos_of(site, kind))),
            staging=Staging(stage),
        )
        try:
            text = render_jobscript(make_job(request, site))
        except BadInputError:
            continue
        written += 1
        # ranks that share GPUs are the user's choice, and lint reports them
        chosen = {"shared-gpus"} if share else set()
        assert [fault for fault in lint_job(text, site) if fault.rule not in chosen] == [], text
    assert written >= 12 / EVERY


def test_scripts_for_another_scheduler_than_slurm_are_not_judged() -> None:
    with pytest.raises(LackingError, match="only in batch scripts of Slurm, and polaris has another scheduler: pbs"):
        lint_job("#!/bin/bash\n#PBS -l select=1\n", SITES["polaris"])
