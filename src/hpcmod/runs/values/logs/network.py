"""The network that the logs of a run show, compared with that of the machine: findings with reasons and cures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, WARN, Finding
from hpcmod.machine.values.tables import Network
from hpcmod.runs.values.endings.ending import HINT
from hpcmod.runs.values.endings.events import Log
from hpcmod.runs.values.logs.reading import Reading, Seen, read_log
from hpcmod.runs.values.logs.rules import NO_PLUGIN, PLUGIN_NOT_LOADED

_SHOWN = 10  # warnings that no rule knows
_SLOW = ("tcp", "sockets", "tcp;ofi_rxm", "udp", "udp;ofi_rxd", "net")
_FAST_UCX = ("rc", "dc", "ud", "srd")
_LOCAL_UCX = ["self", "sysv", "posix", "cma", "knem", "xpmem", "mm", "cuda_copy", "cuda_ipc", "rocm_copy", "rocm_ipc"]
_TRY = "Run it with NCCL_DEBUG=INFO: `hpcmod check NAME --network`, or `hpcmod job --env HPCMOD_DEBUG=nccl`."


def judge_network(reading: Reading, expected: Network, *, worked: bool = False) -> Iterator[Finding]:
    """Yield findings about the network of a run, from its logs.

    `worked`: Whether the run is known to have worked: then a logged problem is only a warning.
    """
    networks = networks_of(reading)
    if networks:
        yield _judge_nccl(reading, networks, expected)
        yield from _judge_details(reading, networks, expected)
    yield from _judge_mpi(reading, expected)
    yield from _report_problems(reading, worked=worked)
    yield from _report_unknown(reading)
    if not reading.lines:
        yield Finding(UNKNOWN, "network", "no line of NCCL, RCCL, libfabric, MPI, UCX or gloo found", _TRY)
    elif not networks and not _mpi_transports(reading) and not reading.problems:
        yield Finding(UNKNOWN, "network", "the logs do not say which network was used", _TRY)


def networks_of(reading: Reading) -> tuple[str, ...]:
    """Return the networks that NCCL or RCCL used, the most frequent first: OFI, IB, Socket, or another name.

    NCCL before 2.5 does not name it, but lists the interfaces and says that there is no InfiniBand device.
    """
    sockets_only = reading.values("sockets") and "no-ib-device" in reading.reasons
    return reading.values("network") or reading.values("via") or (("Socket",) if sockets_only else ())


def describe_network(reading: Reading) -> str:
    """Return the network of NCCL or RCCL in one line; empty if the logs do not name it."""
    networks = networks_of(reading)
    if not networks:
        return ""
    versions = " and ".join(reading.values("version")) or "NCCL"
    said = [f"{versions}: {' and '.join(_describe(reading, name) for name in networks)}"]
    if "Socket" not in networks:
        said += [f"GPUDirect RDMA {' and '.join(reading.values('gdr'))}"] if reading.values("gdr") else []
    return ", ".join(said)


def _describe(reading: Reading, network: str) -> str:
    if network == "OFI":
        through = " and ".join(reading.values("provider"))
        details = [*reading.values("plugin"), *_nics(reading)]
        return ", ".join([f"OFI through {through}" if through else "OFI", *details])
    if network == "IB":
        return ", ".join([" and ".join(reading.values("link")) or "IB", *reading.values("plugin"), *_nics(reading)])
    if network == "Socket":
        over = ", ".join(reading.values("sockets"))
        return f"TCP sockets over {over}" if over else "TCP sockets"
    return network


def _nics(reading: Reading) -> list[str]:
    return [f"{number} NIC{'s' * (number != '1')}" for number in reading.values("nics")]


def _judge_nccl(reading: Reading, networks: Sequence[str], expected: Network) -> Finding:
    found = describe_network(reading)
    wanted = {"": "", "ib": "IB"}.get(expected.fabric, "OFI")
    causes = [(seen.ending.title, seen.ending.help) for seen in reading.problems.values() if seen.ending]
    false = NO_PLUGIN if PLUGIN_NOT_LOADED in reading.reasons else ""
    reasons = [reason for name, reason in reading.reasons.items() if name != false]
    reasons = [reason for reason in reasons if not wanted or reason.hinders in ("", wanted)]
    causes += [(reason.meaning, reason.cure) for reason in reasons]
    because = "; because " + ", and ".join(why for why, _ in causes) if causes else "; the logs do not say why"
    cure = causes[0][1] if causes else _TRY
    if not wanted and "Socket" in networks:
        return Finding(WARN, "network", f"{found}, 10 to 100 times slower than InfiniBand or Slingshot{because}", cure)
    if not wanted:
        cure = "Add `fabric` to [network] of the profile."
        return Finding(UNKNOWN, "network", f"{found}; the site profile does not say what to expect", cure)
    providers = set(reading.values("provider"))
    if set(networks) == {wanted} and wanted == "OFI" and not providers:
        return Finding(UNKNOWN, "network", f"{found}; the log does not name the provider of libfabric", _TRY)
    if set(networks) == {wanted} and (wanted == "IB" or providers == {expected.fabric}):
        return Finding(OK, "network", found)
    name = "InfiniBand or RoCE" if wanted == "IB" else f"OFI through {expected.fabric}"
    return Finding(FAIL, "network", f"{found}; this machine has {name}{because}", cure)


def _judge_details(reading: Reading, networks: Sequence[str], expected: Network) -> Iterator[Finding]:
    if "Socket" not in networks and "off" in reading.values("gdr"):
        some = " for some ranks or cards" if "on" in reading.values("gdr") else ""
        yield Finding(
            WARN,
            "gpudirect",
            f"GPUDirect RDMA is off{some}: data goes through the memory of the host",
            "Check NCCL_NET_GDR_LEVEL, and that the driver offers peer memory or DMA-BUF.",
        )
    numbers = [int(number) for number in reading.values("nics") if number.isdigit()]
    if "OFI" in networks and numbers and min(numbers) < len(expected.interfaces):
        yield Finding(
            WARN,
            "nics",
            f"{min(numbers)} of {len(expected.interfaces)} network cards are used",
            "Ask for whole nodes, or check that all of /dev/cxi* exist in the container.",
        )
    strange = [name for name in reading.values("bootstrap") if expected.interfaces and name not in expected.interfaces]
    if strange:
        yield Finding(
            WARN,
            "interface",
            f"the ranks find each other over {', '.join(strange)}, expected {', '.join(expected.interfaces)}",
            f"export NCCL_SOCKET_IFNAME={','.join(expected.interfaces)}",
        )


def _judge_mpi(reading: Reading, expected: Network) -> Iterator[Finding]:
    used = _mpi_transports(reading)
    if not used:
        return
    found = ", ".join(used)
    cure = "Check `fi_info` in the container and `hpcmod compat IMAGE`; unset FI_PROVIDER and UCX_TLS."
    if not expected.fabric:
        yield Finding(UNKNOWN, "mpi-network", f"{found}; the site profile does not say what to expect")
    elif _is_slow(reading, expected):
        yield Finding(FAIL, "mpi-network", f"MPI uses {found}, but this machine has {expected.fabric}", cure)
    elif reading.values("mpi_provider") or reading.values("ucx") or all(name.startswith("cxi") for name in used):
        yield Finding(OK, "mpi-network", f"MPI uses {found}")
    else:
        yield Finding(
            UNKNOWN, "mpi-network", f"MPI uses {found}; its log does not name the provider of libfabric", cure
        )


def _is_slow(reading: Reading, expected: Network) -> bool:
    """Return whether MPI uses TCP: libfabric names its domains after network interfaces."""
    if reading.values("mpi_provider"):
        return all(name in _SLOW or name == "self" for name in reading.values("mpi_provider"))
    if _ucx_between_nodes(reading):
        return not any(name.split("_")[0] in _FAST_UCX for name in _ucx_between_nodes(reading))
    return any(name in expected.interfaces for name in reading.values("mpi_domain"))


def _mpi_transports(reading: Reading) -> tuple[str, ...]:
    domains = tuple(f"{name} (a domain of libfabric)" for name in reading.values("mpi_domain"))
    return reading.values("mpi_provider") or _ucx_between_nodes(reading) or domains


def _ucx_between_nodes(reading: Reading) -> tuple[str, ...]:
    return tuple(name for name in reading.values("ucx") if name not in _LOCAL_UCX)


def _report_problems(reading: Reading, *, worked: bool) -> Iterator[Finding]:
    for name, seen in reading.problems.items():
        ending = seen.ending
        if ending:
            level = WARN if worked or ending.kind == HINT else FAIL
            yield _about(seen, level, name, f"{ending.title}: {seen.text}", ending.help)


def _report_unknown(reading: Reading) -> Iterator[Finding]:
    for seen in reading.unknown[:_SHOWN]:
        yield _about(seen, UNKNOWN, "unknown-warning", seen.text, "")
    more = len(reading.unknown) - _SHOWN
    if more > 0:
        yield Finding(UNKNOWN, "unknown-warning", f"{more} more warnings that no rule knows")


def _about(seen: Seen, level: str, rule: str, found: str, cure: str) -> Finding:
    return Finding(level, rule, found[:500], cure, subject=seen.file, line=seen.line if seen.file else 0)


@dataclass(frozen=True)
class NetworkUsed:
    """What the logs of a run say of its network; empty if they do not name it."""

    used: str = ""
    """The network of NCCL or RCCL, in one line."""
    facts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By field and value: the number of lines."""
    findings: tuple[Finding, ...] = ()
    """What is worse than this machine's network should be, with reasons and cures."""

    @property
    def slow(self) -> bool:
        """Return whether a slower network than the machine's was used."""
        return any(finding.level == FAIL for finding in self.findings)


def find_network(logs: Iterable[Log], expected: Network) -> NetworkUsed:
    """Return the network of a run."""
    reading = Reading()
    for log in logs:
        read_log(log.text, reading, file=log.name)
    if not networks_of(reading) and not _mpi_transports(reading):
        return NetworkUsed()
    judged = judge_network(reading, expected)
    findings = tuple(finding for finding in judged if finding.level in (FAIL, WARN))
    return NetworkUsed(describe_network(reading), reading.facts, findings)
