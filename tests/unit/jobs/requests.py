"""Requests for jobs, by the fields of their parts."""

from __future__ import annotations

from typing import Any

from hpcmod.jobs.values.request import JobModule, JobRequest, Ranks


def make_request(*program: str, **asked: Any) -> JobRequest:
    """Return a request; the fields of `ranks` are given by their names."""
    ranks = Ranks(**{name: asked.pop(name) for name in Ranks._fields if name in asked})
    return JobRequest(program or ("train.py",), **{"module": JobModule("X/1.0"), "ranks": ranks, **asked})
