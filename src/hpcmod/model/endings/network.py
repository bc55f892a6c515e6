"""The network that a run used, from the lines of NCCL, RCCL and libfabric among its output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from hpcmod.model.endings.events import Log
from hpcmod.model.finding import FAIL, WARN, Finding
from hpcmod.model.logs.network import Expected, describe_network, judge_network, networks_of
from hpcmod.model.logs.reading import Reading, read_line

_SIGNS = ("NCCL INFO", "NCCL WARN", "libfabric:")
_MOST = 20_000  # lines of a log that are read


@dataclass(frozen=True)
class NetworkUsed:
    """What the logs say."""

    description: str
    """One line; empty if they do not name the network."""
    findings: tuple[Finding, ...]
    """What is worse than this machine's network should be, with reasons and cures."""


def find_network(logs: Iterable[Log], expected: Expected) -> NetworkUsed:
    """Return the network of a run."""
    reading = Reading()
    for log in logs:
        for number, line in islice(_lines_about_it(log), _MOST):
            read_line(reading, line, file=log.name, number=number)
    if not networks_of(reading):
        return NetworkUsed("", ())
    judged = judge_network(reading, expected)
    return NetworkUsed(describe_network(reading), tuple(one for one in judged if one.level in (FAIL, WARN)))


def _lines_about_it(log: Log) -> Iterator[tuple[int, str]]:
    if not any(sign in log.text for sign in _SIGNS):
        return
    for number, line in enumerate(log.text.split("\n"), log.first_line):
        if any(sign in line for sign in _SIGNS):
            yield number, line
