"""Read what Linux says about one node: cores, network interfaces, file systems, and the release of the system."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpcmod.machine.values.facts import NodeFacts

NETWORK_FILE_SYSTEMS = (
    *("lustre", "gpfs", "beegfs", "beegfs_nodev", "ceph", "fuse.ceph", "wekafs", "panfs", "pvfs2", "orangefs"),
    *("fuse.dfuse", "nfs", "nfs4", "dvs", "glusterfs", "fuse.glusterfs", "virtiofs", "9p"),
)
"""Types in /proc/mounts whose files are the same on all nodes."""

LOCAL_FILE_SYSTEMS = ("ext4", "xfs", "btrfs", "zfs")
"""Types of disks of a node."""

_OF_SYSTEM = ("usr", "etc", "var", "run", "proc", "sys", "dev", "boot", "bin", "sbin", "lib", "lib64", "opt", "root")
_INFINIBAND = "32"  # ARPHRD_INFINIBAND, linux/if_arp.h
_FAST = 100_000  # Mbit/s
_OF_SLINGSHOT = re.compile(r"hsn\d+")  # the names of HPE's driver


@dataclass(frozen=True)
class Cores:
    """The processor cores of a node."""

    cores: int
    threads: int
    """Hardware threads per core."""
    regular: bool
    """Whether CPU c is on core c, and thread t of core c is CPU c + t * cores, as profiles number them."""


@dataclass(frozen=True)
class Mount:
    """A mounted file system."""

    device: str
    path: str
    kind: str


@dataclass(frozen=True)
class Interface:
    """A network interface of a node."""

    name: str
    why: str
    """Why it is for traffic between GPUs; empty if it is not."""


@dataclass(frozen=True)
class NodeSurvey:
    """What one node says about itself; empty means not known."""

    facts: NodeFacts
    cores: Cores | None = None
    mounts: tuple[Mount, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    """Symbolic links in /, and their targets."""
    interfaces: tuple[Interface, ...] = ()
    fabric: str = ""
    """A fast network, and how it was found."""
    fabric_source: str = ""
    system: str = ""
    """Name and release of the operating system."""
    architecture: str = ""


def parse_survey(texts: Mapping[str, str], facts: NodeFacts) -> NodeSurvey:
    """Parse the texts of a node, by name: lscpu, mounts, links, interfaces, infiniband, cxi, os-release, machine."""
    fabric, source = _find_fabric(texts)
    pretty = re.search(r'^PRETTY_NAME="?([^"\n]*)', texts.get("os-release", ""), re.MULTILINE)
    return NodeSurvey(
        facts=facts,
        cores=parse_lscpu(texts.get("lscpu", "")),
        mounts=tuple(parse_mounts(texts.get("mounts", ""))),
        links=tuple(_pairs(texts.get("links", ""), " -> ")),
        interfaces=tuple(_parse_interfaces(texts.get("interfaces", ""), facts)),
        fabric=fabric,
        fabric_source=source,
        system=pretty[1] if pretty else "",
        architecture=texts.get("machine", "").strip(),
    )


def parse_lscpu(text: str) -> Cores | None:
    """Parse `lscpu --parse=CPU,CORE,SOCKET`; None if it says nothing."""
    rows = [line.split(",") for line in text.splitlines() if line[:1].isdigit()]
    places = {int(cpu): (core, socket) for cpu, core, socket, *_ in (row for row in rows if len(row) >= 3)}
    if not places:
        return None
    cores = len(set(places.values()))
    threads = len(places) // cores
    first = [places.get(cpu) for cpu in range(cores)]
    regular = len(set(first)) == cores and all(places.get(cpu) == first[cpu % cores] for cpu in range(cores * threads))
    return Cores(cores, threads, regular)


def parse_mounts(text: str) -> Iterator[Mount]:
    """Yield the file systems of /proc/mounts; octal escapes, as of blanks, are decoded."""
    for line in text.splitlines():
        words = [re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), word) for word in line.split(" ")]
        if len(words) >= 3:
            yield Mount(*words[:3])


def shared_paths(survey: NodeSurvey, home: str) -> list[tuple[str, str]]:
    """Return the paths of network file systems that containers need, and how each was found, sorted.

    Left out are those of the system, and the home directory, which container runtimes bind by themselves.
    """
    mounts = {
        mount.path: mount for mount in survey.mounts if mount.kind in NETWORK_FILE_SYSTEMS and _is_for_users(mount.path)
    }
    paths = {path: f"{mount.kind} in /proc/mounts" for path, mount in mounts.items()}
    for name, target in survey.links:
        path = target if target.startswith("/") else f"/{target}"
        behind = next((mount for mount in mounts if f"{path}/".startswith(f"{mount}/")), "")
        if behind and _is_for_users(f"/{name}"):
            paths.setdefault(f"/{name}", f"a link into {behind}")
    homes = {home, home.rpartition("/")[0]} - {"", "/"}
    return sorted((path, why) for path, why in paths.items() if path not in homes)


def local_disks(survey: NodeSurvey) -> list[Mount]:
    """Return the local file systems of a node that are not part of its system."""
    return [mount for mount in survey.mounts if mount.kind in LOCAL_FILE_SYSTEMS and _is_for_users(mount.path)]


def _is_for_users(path: str) -> bool:
    first = path.lstrip("/").partition("/")[0]
    return path.startswith("/") and first != "" and first not in _OF_SYSTEM


def _parse_interfaces(text: str, facts: NodeFacts) -> Iterator[Interface]:
    """Yield the interfaces that this node's tasks can use, in the order of their numbers."""
    rows = {line.split(" ")[0]: line.split(" ")[1:] for line in text.splitlines()}
    states = dict(facts.interfaces)
    for name in sorted(states, key=_by_number):
        kind, speed = (*rows.get(name, []), "", "")[:2]
        why = ""
        if _OF_SLINGSHOT.fullmatch(name):
            why = "named as the interfaces of HPE Slingshot"
        elif kind == _INFINIBAND:
            why = "IP over InfiniBand"
        elif speed.isdigit() and int(speed) >= _FAST:
            why = f"{int(speed) // 1000} Gbit/s"
        if states[name] == "up":
            yield Interface(name, why)


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part or 0), word) for word, part in re.findall(r"(\D*)(\d*)", name)]


def _find_fabric(texts: Mapping[str, str]) -> tuple[str, str]:
    """Return a fast network by the name that profiles have for it, and how it was found."""
    cards = [line.split(" ") for line in texts.get("infiniband", "").splitlines()]  # name, driver, link layer
    if texts.get("cxi", "").strip():
        return "cxi", f"/sys/class/cxi has {', '.join(texts['cxi'].split())}"
    efa = [card[0] for card in cards if len(card) > 1 and card[1] == "efa"]
    if efa:
        return "efa", f"/sys/class/infiniband has {', '.join(efa)} with the driver efa"
    real = [card[0] for card in cards if "InfiniBand" in card[2:]]
    return ("ib", f"/sys/class/infiniband has {', '.join(real)} with InfiniBand links") if real else ("", "")


def _pairs(text: str, between: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, separator, rest = line.partition(between)
        if separator:
            yield name, rest
