"""Compatibility verdicts: the facts they are based on, and how findings combine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hpcmod.compat.values.loader import Closure, Library
from hpcmod.compat.values.stack import Fabric, Mpi, StackFacts, newest_version
from hpcmod.core.values.finding import Finding, worst_level
from hpcmod.machine.values.site import Site


@dataclass(frozen=True)
class Verdict:
    """All findings about an image, and their combined level."""

    findings: tuple[Finding, ...]

    @property
    def level(self) -> str:
        """fail: it will not work; warn: it may work poorly; ok: no known problem."""
        return worst_level(self.findings)

    def at(self, level: str) -> tuple[Finding, ...]:
        """Return the findings at a level."""
        return tuple(finding for finding in self.findings if finding.level == level)


@dataclass(frozen=True)
class Unmet:
    """A symbol version that one library needs and another does not define: the loader stops there."""

    version: str
    provider: str
    """Path in the container of the library that lacks the version."""
    wanted_by: str


@dataclass(frozen=True)
class Loaded:
    """The result of loading one file in a container, including host libraries."""

    what: str
    """One of the kinds that model.compat.stack names."""
    path: str
    by_name: bool = True
    """Whether the loader finds it by name alone."""
    missing: tuple[tuple[str, str], ...] = ()
    """Libraries that are not found: name, and the file that needs it."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """Libraries in the image that the loader does not find by default: name and path."""
    unmet: tuple[Unmet, ...] = ()
    fabric: Fabric | None = None
    """The libfabric it gets."""
    mpi: Mpi | None = None
    """The MPI it gets."""
    from_host: tuple[str, ...] = ()
    """Paths in the container of the libraries it gets from the host."""
    replaced: tuple[tuple[str, str], ...] = ()
    """For these: path, and path of the image's own library that would otherwise be loaded."""


@dataclass(frozen=True)
class HostFacts:
    """Known facts of the machine; empty means not known."""

    architecture: str = ""
    """GOARCH name."""
    cuda_driver: str = ""
    """NVIDIA driver version, e.g. 550.54.15."""
    gpu_targets: tuple[str, ...] = ()
    """Micro-architectures of this node's GPUs, e.g. gfx90a, sm_90."""
    has_cxi: bool = False
    """Whether there is a Slingshot device."""
    cxi_library: str = ""
    """libtool's version of the host's libcxi."""
    mpis: tuple[Mpi, ...] = ()
    """Host libraries that a container's loader finds by name."""
    fabrics: tuple[Fabric, ...] = ()
    """Host libraries that are visible in containers, wherever they are."""
    netstack: str = ""
    """Directory with host libraries that containers search first."""
    runtime: str = ""
    """What the container runtime says of its version, where the image's compression matters to it."""


@dataclass(frozen=True)
class Case:
    """An image on a machine."""

    image: StackFacts
    host: HostFacts
    site: Site
    loaded: tuple[Loaded, ...] = ()
    hidden: tuple[Unmet, ...] = ()
    """Versions that the image's own library defines, but not the host's library that programs get instead."""

    def of(self, *kinds: str) -> tuple[Loaded, ...]:
        """Return the results for files of these kinds."""
        return tuple(library for library in self.loaded if library.what in kinds)

    @property
    def has_slingshot(self) -> bool:
        """Return whether the network is HPE Slingshot: a device is present, or interfaces have HPE's names."""
        return self.host.has_cxi or any(name.startswith("hsn") for name in self.site.network.interfaces)


@dataclass(frozen=True)
class CompatRule:
    """One question, and the source of its answer."""

    name: str
    question: str
    levels: str
    """Possible findings, for people."""
    source: str
    judge: Callable[[Case], Iterator[Finding]]


def judge(case: Case, rules: Iterable[CompatRule]) -> Verdict:
    """Apply every rule in order."""
    return Verdict(tuple(finding for rule in rules for finding in rule.judge(case)))


def find_unmet(closure: Closure) -> tuple[Unmet, ...]:
    """Find symbol versions that are needed but not defined, as the loader checks before anything runs.

    A library that defines no versions at all satisfies any version, as for the loader.
    """
    by_name: dict[str, Library] = {}
    for library in closure.libraries:
        by_name.setdefault(library.name.rpartition("/")[2], library)
        by_name.setdefault(library.elf.soname, library)
    return tuple(
        Unmet(version, by_name[name].path, library.path)
        for library in closure.libraries
        for name, version in library.elf.versions_needed
        if name in by_name and by_name[name].elf.versions_defined and version not in by_name[name].elf.versions_defined
    )


def by_pair(unmet: Iterable[Unmet]) -> Iterator[Unmet]:
    """Yield the newest missing version for each pair of libraries."""
    pairs: dict[tuple[str, str, str], list[str]] = {}
    for need in unmet:
        prefix = re.split(r"\d", need.version, maxsplit=1)[0]
        pairs.setdefault((need.provider, need.wanted_by, prefix), []).append(need.version)
    for (provider, wanted_by, prefix), versions in pairs.items():
        yield Unmet(newest_version(versions, prefix) or versions[-1], provider, wanted_by)
