"""Read the output of all_reduce_bench.py of stas00/ml-engineering, which MareNostrum 5's hands-on uses, old and new.

The old one prints one payload, in units of 10^9 bytes: "The average bandwidth of all_reduce with a 4.0GB payload (5
trials, 4 ranks):", then "algbw: 371.203 GBps (2969.6 Gbps)" and busbw. The new one prints a Markdown table of payloads,
in units of 2^10 bytes whether it calls them KB or KiB, for any collective .
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hpcmod.model.bandwidth.collectives import COLLECTIVES, name_collective
from hpcmod.model.bandwidth.measurement import Measurement, TableReading, parse_number, plain_lines

_ONE = re.compile(
    r"\s*The average bandwidth of all_reduce with a ([\d.]{1,20})GB payload \(\d+ trials, (\d{1,7}) ranks\)"
)
_RATE = re.compile(r"\s*(algbw|busbw):\s*([\d.]{1,20}) GBps\b")
_MANY = re.compile(r"\s*The average bandwidth (?:and the per-call latency )?of (\w{1,40}) over (\d{1,7}) ranks\b")
_HEAD = re.compile(r"\s*\|\s*payload\s*\|\s*busbw\s*\|\s*algbw\s*\|")
_ROW = re.compile(r"\s*\|\s*(\d{1,9})([KMGT]?)i?B\s*\|\s*([\d.]{1,20})\s*GBps\s*\|\s*([\d.]{1,20})\s*GBps\s*\|")
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NOTHING = Measurement("", 0, 0, 0, 0.0, 0.0, 0.0)


def read_all_reduce_bench(text: str) -> TableReading:
    """Read all results in a log."""
    return TableReading(tuple(_read(text)))


def _read(text: str) -> Iterator[Measurement]:
    known, rates, in_table = _NOTHING, dict[str, float](), False
    for line in plain_lines(text):
        if one := _ONE.match(line):
            size = round((parse_number(one[1]) or 0) * 1e9)
            known, rates = replace(_NOTHING, collective="all_reduce", size=size, ranks=int(one[2])), {}
        elif many := _MANY.match(line):
            collective = many[1] if many[1] in COLLECTIVES else ""
            known, rates = replace(_NOTHING, collective=collective, ranks=int(many[2])), {}
        elif _HEAD.match(line):
            in_table = True
        elif rate := _RATE.match(line):
            rates[rate[1]] = parse_number(rate[2]) or 0.0
            if len(rates) == 2 and known.size:
                yield _complete(known, known.size, rates["algbw"], rates["busbw"])
                known, rates = _NOTHING, {}
        elif (row := _ROW.match(line)) and in_table:
            size, busbw, algbw = int(row[1]) * _FACTORS[row[2]], parse_number(row[3]), parse_number(row[4])
            yield _complete(known, size, algbw or 0.0, busbw or 0.0)
        elif in_table and "|" not in line:
            known, in_table = _NOTHING, False


def _complete(known: Measurement, size: int, algbw: float, busbw: float) -> Measurement:
    time = size / algbw / 1000 if algbw else 0.0
    collective = known.collective or name_collective(algbw, busbw)
    return replace(known, collective=collective, size=size, algbw=algbw, busbw=busbw, time=time)
