"""Read a Markdown table of bandwidths by number of nodes, as the hands-on of MareNostrum 5 has it.

Its columns are nodes, bus bandwidth and algorithm bandwidth. Where no unit is written, there is none: the ratio of both
columns gives the number of ranks, but it is the same in GB/s and Gb/s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpcmod.model.bandwidth.collectives import count_ranks, name_collective
from hpcmod.model.bandwidth.measurement import Measurement, TableReading, parse_number, plain_lines
from hpcmod.model.finding import UNKNOWN, Finding

UNITS = {"GB/s": 1.0, "GBps": 1.0, "Gb/s": 0.125, "Gbps": 0.125, "Gbit/s": 0.125}
"""By unit of bandwidth as people write it: its GB/s."""

_CELLS = re.compile(r"\s*\|(.{1,2000})\|\s*$")
_UNIT = re.compile(rf"\b({'|'.join(map(re.escape, UNITS))})(?![\w/])")


def read_node_table(text: str, unit: str = "") -> TableReading:
    """Read all such tables of a text.

    Parameters
    ----------
    unit
        Unit of tables that do not name theirs, one of UNITS; empty: not known, and they are reported but not read.
    """
    found: list[Measurement] = []
    findings: list[Finding] = []
    columns: dict[str, int] = {}
    factor = 0.0
    for line in plain_lines(text):
        row = _CELLS.match(line)
        cells = [cell.strip() for cell in row[1].split("|")] if row else []
        if not cells:
            columns = {}
        elif heads := _columns(cells):
            columns, named = heads, _UNIT.search(line)
            factor = UNITS.get(named[1] if named else unit, 0.0)
            if not factor:
                findings.append(Finding(UNKNOWN, "unit", _NO_UNIT, "Give it: --unit GB/s or --unit Gb/s", "table"))
        elif columns and factor:
            found += _read_row(cells, columns, factor)
    return TableReading(tuple(found), tuple(findings))


_NO_UNIT = "a table of bandwidths by nodes has no unit, and was not read"


def _columns(cells: Sequence[str]) -> dict[str, int]:
    """Return the places of the columns of a header; empty if it is not one."""
    names = [cell.lower() for cell in cells]
    places = {
        key: next((place for place, name in enumerate(names) if name.startswith(key)), -1)
        for key in ("nodes", "bus bandwidth", "algorithm bandwidth")
    }
    return places if min(places.values()) >= 0 else {}


def _read_row(cells: Sequence[str], columns: dict[str, int], factor: float) -> list[Measurement]:
    if len(cells) <= max(columns.values()):
        return []
    nodes, busbw, algbw = (cells[columns[key]] for key in ("nodes", "bus bandwidth", "algorithm bandwidth"))
    bus, algorithm = parse_number(busbw), parse_number(algbw)
    if not re.fullmatch(r"\d{1,6}", nodes) or bus is None or algorithm is None:
        return []
    collective = name_collective(algorithm, bus)
    digit = 0.1 ** min(map(_decimals, (busbw, algbw)))
    ranks = count_ranks(collective, algorithm, bus, digit=digit, nodes=int(nodes))
    return [Measurement(collective, 0, int(nodes), ranks, 0.0, algorithm * factor, bus * factor)]


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])
