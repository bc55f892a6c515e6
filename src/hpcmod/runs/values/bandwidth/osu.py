"""Read the tables of the OSU Micro-Benchmarks.

They print the size of a message, and bandwidth in MB/s (10^6 bytes) or latency in microseconds, but no number of ranks:
the bus bandwidth of a collective is known only if it does not depend on them. The size of osu_allgather, osu_alltoall
and osu_reduce_scatter is that of one rank's share, so their bandwidth is unknown, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.runs.values.bandwidth.measurement import Measurement, TableReading, parse_number, plain_lines

_TITLE = re.compile(r"\s*# OSU (?:MPI|NCCL|RCCL|UPC|OpenSHMEM)\S* (.{1,80}?) Test\b")
_ROW = re.compile(r"\s*(\d{1,19})\s+([\d.]{1,20})\b")
_BANDWIDTHS = ("Bandwidth", "Get Bandwidth", "Put Bandwidth", "Get_bw", "MPI_Get Bandwidth", "MPI_Put Bandwidth")
_LATENCIES = {
    "Latency": "sendrecv",
    "Allreduce Latency": "all_reduce",
    "Broadcast Latency": "broadcast",
    "Reduce Latency": "reduce",
}


def read_osu(text: str) -> TableReading:
    """Read all tables in a log whose collective is known here; two ranks are assumed for one pair only."""
    return TableReading(tuple(_read(text)))


def _read(text: str) -> Iterator[Measurement]:
    title = ""
    for line in plain_lines(text):
        if head := _TITLE.match(line):
            title = head[1]
        elif (row := _ROW.match(line)) and (title in _BANDWIDTHS or title in _LATENCIES):
            number = parse_number(row[2])
            if number is not None:
                yield _measure(title, int(row[1]), number)
        elif line.strip() and not line.lstrip().startswith("#"):
            title = ""  # another program's output: a later number is not a row of the table


def _measure(title: str, size: int, number: float) -> Measurement:
    if title in _BANDWIDTHS:
        rate = number / 1000
        return Measurement("sendrecv", size, 0, 2, time=size / number if number else 0.0, algbw=rate, busbw=rate)
    collective = _LATENCIES[title]
    rate = size / number / 1000 if number else 0.0
    busbw = 0.0 if collective == "all_reduce" else rate
    return Measurement(collective, size, 0, 2 if collective == "sendrecv" else 0, time=number, algbw=rate, busbw=busbw)
