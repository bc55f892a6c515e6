"""Read the JSON file that nccl-tests writes with -J (version field 2 and 3; src/util.cu of nccl-tests)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hpcmod.model.bandwidth.collectives import PROGRAMS
from hpcmod.model.bandwidth.measurement import Measurement, TableReading, parse_number
from hpcmod.model.finding import FAIL, Finding

_HALVES = (("out_of_place", False), ("in_place", True))


def read_nccl_json(text: str) -> TableReading | None:
    """Read a report; None if the text is not one."""
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or not isinstance(report.get("results"), list):
        return None
    return TableReading(tuple(_read_results(report)), tuple(_check_bounds(report)))


def _read_results(report: dict[str, Any]) -> Iterator[Measurement]:
    config = report.get("config")
    places = _listed(report, "devices") or (_listed(config, "devices") if isinstance(config, dict) else [])
    hosts = {str(one.get("hostname")) for one in places}
    args = report.get("args")
    program = args[0] if isinstance(args, list) and args and isinstance(args[0], str) else ""
    collective = PROGRAMS.get(program.rpartition("/")[2], "")
    for row in _listed(report, "results"):
        size = row.get("size")
        for key, in_place in _HALVES:
            half = row.get(key)
            if isinstance(half, dict) and isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 63:
                yield from _read_half(half, Measurement(collective, size, len(hosts), len(places), 0, 0, 0, in_place))


def _listed(values: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = values.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _read_half(half: dict[str, Any], known: Measurement) -> Iterator[Measurement]:
    time = half.get("time", half.get("cpu_time"))
    numbers = [parse_number(str(value)) for value in (time, half.get("alg_bw"), half.get("bus_bw"))]
    if None in numbers:
        return
    rates = [number or 0.0 for number in numbers]
    wrong = parse_number(str(half.get("nwrong")))
    yield replace(known, time=rates[0], algbw=rates[1], busbw=rates[2], wrong=-1 if wrong is None else int(wrong))


def _check_bounds(report: dict[str, Any]) -> Iterator[Finding]:
    bounds = report.get("out_of_bounds")
    count = bounds.get("count") if isinstance(bounds, dict) else 0
    if isinstance(count, int) and count > 0:
        cure = "Run it on other nodes: wrong values come from broken hardware, a driver or a library."
        yield Finding(FAIL, "wrong-values", f"{count} values out of bounds", cure, "report")
