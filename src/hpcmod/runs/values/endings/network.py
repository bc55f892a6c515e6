"""The network that a run used, from the lines of NCCL, RCCL, libfabric and MPI among its output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hpcmod.core.values.finding import FAIL, WARN, Finding
from hpcmod.machine.values.site import Network
from hpcmod.runs.values.endings.events import Log
from hpcmod.runs.values.logs.network import describe_network, judge_network, names_network
from hpcmod.runs.values.logs.reading import Reading, read_log

_OF_NETWORK = ("network", "mpi-network")


@dataclass(frozen=True)
class NetworkUsed:
    """What the logs say; empty if they do not name the network."""

    used: str = ""
    """The network of NCCL or RCCL, in one line."""
    facts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By field and value: the number of lines."""
    findings: tuple[Finding, ...] = ()
    """What is worse than this machine's network should be, with reasons and cures."""

    @property
    def slow(self) -> bool:
        """Return whether a slower network than the machine's was used."""
        return any(finding.level == FAIL and finding.rule in _OF_NETWORK for finding in self.findings)


def find_network(logs: Iterable[Log], expected: Network) -> NetworkUsed:
    """Return the network of a run."""
    reading = Reading()
    for log in logs:
        read_log(log.text, file=log.name, into=reading)
    if not names_network(reading):
        return NetworkUsed()
    judged = judge_network(reading, expected)
    findings = tuple(finding for finding in judged if finding.level in (FAIL, WARN))
    return NetworkUsed(describe_network(reading), reading.facts, findings)
