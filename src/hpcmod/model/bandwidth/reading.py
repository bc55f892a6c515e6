"""Read the bandwidths in a text of any known benchmark, and add what its reader can only be told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hpcmod.model.bandwidth.all_reduce_bench import read_all_reduce_bench
from hpcmod.model.bandwidth.collectives import bus_factor, count_ranks
from hpcmod.model.bandwidth.measurement import Measurement, TableReading
from hpcmod.model.bandwidth.nccl_json import read_nccl_json
from hpcmod.model.bandwidth.nccl_tests import read_nccl_tests
from hpcmod.model.bandwidth.node_table import read_node_table
from hpcmod.model.bandwidth.osu import read_osu
from hpcmod.model.finding import UNKNOWN, Finding

MOST_MEASUREMENTS = 100_000
"""Measurements read from one text; a log of that many would be of something else."""


@dataclass(frozen=True)
class Known:
    """What the user says about a text; 0 and empty values: nothing."""

    collective: str = ""
    nodes: int = 0
    unit: str = ""
    """Of tables that do not name theirs."""


def read_bandwidths(text: str, known: Known) -> TableReading:
    """Return all measurements in a text, and findings about what is wrong or unknown.

    Parameters
    ----------
    known
        Fills what the text does not say; what it says is not changed.
    """
    report = read_nccl_json(text)
    readings = (report,) if report else (*_read_logs(text), read_node_table(text, known.unit))
    measurements = [one for reading in readings for one in reading.measurements][:MOST_MEASUREMENTS]
    findings = [one for reading in readings for one in reading.findings]
    completed = tuple(_complete([_name(one, known) for one in measurements]))
    if not completed and not findings:
        findings.append(Finding(UNKNOWN, "table", "no table of a known benchmark", _FORMATS, "log"))
    return TableReading(completed, (*findings, *_explain_unknown(completed)))


_FORMATS = "Readable: nccl-tests, rccl-tests, all_reduce_bench.py, OSU, and Markdown tables of nodes and bandwidths."


def _read_logs(text: str) -> tuple[TableReading, ...]:
    return read_nccl_tests(text), read_all_reduce_bench(text), read_osu(text)


def _name(one: Measurement, known: Known) -> Measurement:
    return replace(one, collective=one.collective or known.collective, nodes=one.nodes or known.nodes)


def _complete(measurements: Sequence[Measurement]) -> Iterator[Measurement]:
    """Yield the measurements with the ranks that the fastest of each collective and node count proves."""
    proved: dict[tuple[str, int], int] = {}
    for one in sorted(measurements, key=lambda one: one.algbw):
        proved[one.collective, one.nodes] = count_ranks(one.collective, one.algbw, one.busbw)
    for one in measurements:
        ranks = one.ranks or proved[one.collective, one.nodes]
        yield replace(one, ranks=ranks, busbw=one.busbw or one.algbw * bus_factor(one.collective, ranks))


def _explain_unknown(measurements: tuple[Measurement, ...]) -> Iterator[Finding]:
    if any(not one.collective for one in measurements):
        yield Finding(UNKNOWN, "collective", "a table does not name its collective", "Name it: --ops all_gather", "log")
    if any(not one.nodes for one in measurements):
        yield Finding(UNKNOWN, "nodes", "the number of nodes is not in the text", "Give it: --nodes 2", "log")
