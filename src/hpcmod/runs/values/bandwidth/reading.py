"""Read the bandwidths in a text of any known benchmark, and add what the text does not say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hpcmod.core.values.finding import FAIL, UNKNOWN, Finding
from hpcmod.runs.values.bandwidth.measurement import Measurement, TableReading
from hpcmod.runs.values.bandwidth.nccl_tests import read_nccl_tests
from hpcmod.runs.values.bandwidth.osu import read_osu

MOST_MEASUREMENTS = 100_000
"""Measurements read from one text; a log of that many would be of something else."""


def read_bandwidths(text: str, *, collective: str = "", nodes: int = 0) -> TableReading:
    """Return all measurements in a text, and findings about what is wrong or unknown.

    Parameters
    ----------
    collective, nodes
        Fill what the text does not say; what it says is not changed.
    """
    readings = (read_nccl_tests(text), read_osu(text))
    measurements = tuple(
        replace(one, collective=one.collective or collective, nodes=one.nodes or nodes)
        for reading in readings
        for one in reading.measurements
    )[:MOST_MEASUREMENTS]
    findings = [finding for reading in readings for finding in reading.findings]
    if not measurements and not findings:
        formats = "Readable: the output of nccl-tests, rccl-tests and the OSU Micro-Benchmarks."
        findings.append(Finding(FAIL, "table", "no table of a known benchmark", formats, "log"))
    return TableReading(measurements, (*findings, *_explain_unknown(measurements)))


def _explain_unknown(measurements: tuple[Measurement, ...]) -> Iterator[Finding]:
    if any(not one.collective for one in measurements):
        yield Finding(UNKNOWN, "collective", "a table does not name its collective", "Name it: --ops all_gather", "log")
    if any(not one.nodes for one in measurements):
        yield Finding(UNKNOWN, "nodes", "the number of nodes is not in the text", "Give it: --nodes 2", "log")
