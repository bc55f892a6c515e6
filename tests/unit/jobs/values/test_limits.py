"""Limits of partitions and qualities of service: what Slurm would refuse, or let wait forever, is never submitted."""

from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.jobs.values.job import make_job
from hpcmod.jobs.values.limits import read_hours
from hpcmod.jobs.values.request import JobModule, JobRequest
from hpcmod.machine.values.site import JobRules, Limits, Nodes, NodeType, Site

SITE = Site(
    "ours",
    nodes=Nodes((NodeType("cpu", cores=16, partitions=("small", "large", "long")),)),
    job=JobRules(
        required=("account",),
        limits=(
            Limits("small", nodes=4, hours=((1, 2.0), (3, 1.0)), cores=48),
            Limits("large", nodes=64),
            Limits("long", nodes=2, required=("qos",)),
            Limits("debug", nodes=1, hours=((1, 0.5),)),
        ),
    ),
)


def fault(*, nodes: int = 1, more: tuple[str, ...] = (), site: Site = SITE, **options: str) -> str:
    """Return why a job is refused, with the cure; empty if it is not."""
    named = tuple({"account": "mine", **options}.items())
    try:
        make_job(JobRequest(("train.py",), JobModule("X"), nodes=nodes, more=more, options=named), site)
    except BadInputError as err:
        return f"{err.message}. {err.cure}"
    return ""


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"nodes": 5}, "small on ours accepts jobs of at most 4 nodes, and this one has 5. "
                       "Ask for less, or for another partition: -p large."),
        ({"nodes": 65, "partition": "large"}, "jobs of at most 64 nodes, and this one has 65. Ask for less."),
        ({"nodes": 4}, "jobs of at most 48 cores, and this one has 64."),
        ({"time": "3:00:00"}, "jobs on 1 node of at most 2 hours, and this one asks for 3."),
        ({"nodes": 3, "time": "90"}, "jobs on 3 nodes of at most 1 hours, and this one asks for 1.5."),
        ({"qos": "debug", "time": "45:00"}, "debug on ours accepts jobs of at most 0.5 hours, and this one"),
        ({"qos": "large", "nodes": 65}, "large on ours accepts jobs of at most 64 nodes, and this one has 65."),
        ({"qos": "large", "nodes": 5}, ""),
        ({"partition": "long"}, "every job on ours needs --qos. Add --qos QOS, or export SBATCH_QOS=... once."),
        ({"nodes": 5, "more": ("--partition=large",)}, ""),
        ({"partition": "long", "more": ("-qnormal",)}, ""),
        ({"nodes": 3, "time": "60"}, ""),
        ({"nodes": 2000, "partition": "unknown"}, ""),
    ],
)  # fmt: skip
def test_a_job_beyond_a_limit_is_refused_with_what_would_do(job: dict[str, str], expected: str) -> None:
    assert expected in fault(**job)  # type: ignore[arg-type]
    assert bool(fault(**job)) == bool(expected)  # type: ignore[arg-type]


def test_without_limits_any_job_is_written() -> None:
    assert fault(nodes=2000, time="90-0", site=SITE._replace(job=JobRules())) == ""


@pytest.mark.parametrize(
    ("time", "hours"),
    [("90", 1.5), ("30:36", 0.51), ("01:30:00", 1.5), ("2-0", 48), ("1-12:30", 36.5), ("UNLIMITED", 0), ("", 0)],
)
def test_reads_slurms_time_limits(time: str, hours: float) -> None:
    assert read_hours(time) == pytest.approx(hours)
