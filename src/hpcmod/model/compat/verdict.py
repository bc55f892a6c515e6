"""Whether an image fits a machine: what the verdict is made of, and how single findings add up to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hpcmod.model.compat.stack import Fabric, Mpi, StackFacts, newest_version
from hpcmod.model.libraries.loader import Closure, Library
from hpcmod.model.site import Site

OK, WARN, REFUSE, UNKNOWN = "ok", "warn", "refuse", "unknown"
"""unknown: what a rule would have to know cannot be found out here; it changes no verdict."""


@dataclass(frozen=True)
class CompatFinding:
    """What one rule says."""

    level: str
    """ok, warn, refuse or unknown."""
    rule: str
    """Name of the rule, in the table of rules."""
    found: str
    cure: str = ""


@dataclass(frozen=True)
class Verdict:
    """All findings about an image, and what they come to."""

    findings: tuple[CompatFinding, ...]

    @property
    def level(self) -> str:
        """refuse: it will not work; warn: it may disappoint; ok: nothing known speaks against it."""
        levels = {one.level for one in self.findings}
        return REFUSE if REFUSE in levels else WARN if WARN in levels else OK

    def at(self, level: str) -> tuple[CompatFinding, ...]:
        """Return the findings of a level."""
        return tuple(one for one in self.findings if one.level == level)


@dataclass(frozen=True)
class Unmet:
    """A version of symbols that one library needs of another, which does not define it: the loader stops there."""

    version: str
    provider: str
    """Path in the container of the library that lacks it."""
    wanted_by: str


@dataclass(frozen=True)
class Loaded:
    """What the dynamic loader of a container makes of one file, host libraries and all."""

    what: str
    """One of the kinds that model.compat.stack names."""
    path: str
    by_name: bool = True
    """Whether the loader finds it where nobody but its name says where it is."""
    missing: tuple[tuple[str, str], ...] = ()
    """Name of a library that is found nowhere, and the file that needs it."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """Name and path of a library that is in the image, in a place where the loader does not look by itself."""
    unmet: tuple[Unmet, ...] = ()
    fabric: Fabric | None = None
    """The libfabric it gets."""
    mpi: Mpi | None = None
    """The MPI it gets."""
    from_host: tuple[str, ...] = ()
    """Paths in the container of what it gets from the host."""
    replaced: tuple[tuple[str, str], ...] = ()
    """Of these: path, and that of the image's own library that would have been loaded."""


@dataclass(frozen=True)
class HostFacts:
    """What is known of the machine; empty: not known."""

    architecture: str = ""
    """GOARCH name."""
    cuda_driver: str = ""
    """Of NVIDIA, e.g. 550.54.15."""
    amd_driver: str = ""
    """amdgpu's own version, e.g. 6.8.5; a driver that comes with the kernel has none."""
    has_cxi: bool = False
    """Whether there is a device of Slingshot."""
    cxi_library: str = ""
    """libtool's version of the host's libcxi."""
    mpis: tuple[Mpi, ...] = ()
    """Those of the host that the loader of a container finds by their names."""
    fabrics: tuple[Fabric, ...] = ()
    """Those of the host that containers see, wherever they are."""
    netstack: str = ""
    """Directory with the host's libraries that containers search first."""


@dataclass(frozen=True)
class Case:
    """An image on a machine."""

    image: StackFacts
    host: HostFacts
    site: Site
    loaded: tuple[Loaded, ...] = ()
    hidden: tuple[Unmet, ...] = ()
    """Versions that the image's own library defines, and not the host's that all programs get instead."""

    def of(self, *kinds: str) -> tuple[Loaded, ...]:
        """Return what was made of files of these kinds."""
        return tuple(one for one in self.loaded if one.what in kinds)

    @property
    def has_slingshot(self) -> bool:
        """Whether the machine's network is HPE Slingshot: a device of it, or interfaces named as HPE names them."""
        return self.host.has_cxi or any(name.startswith("hsn") for name in self.site.nics)


@dataclass(frozen=True)
class CompatRule:
    """One question, and where its answer comes from."""

    name: str
    question: str
    levels: str
    """What it can say, for people."""
    source: str
    judge: Callable[[Case], Iterator[CompatFinding]]


def judge(case: Case, rules: Iterable[CompatRule]) -> Verdict:
    """Ask every rule, in their order."""
    return Verdict(tuple(finding for rule in rules for finding in rule.judge(case)))


def find_unmet(closure: Closure) -> tuple[Unmet, ...]:
    """Find the versions of symbols that are needed and not defined, as the loader checks before anything runs.

    A library that defines no versions at all is taken for any, as the loader does.
    """
    by_name: dict[str, Library] = {}
    for one in closure.libraries:
        by_name.setdefault(one.name.rpartition("/")[2], one)
        by_name.setdefault(one.elf.soname, one)
    return tuple(
        Unmet(version, by_name[name].path, one.path)
        for one in closure.libraries
        for name, version in one.elf.versions_needed
        if name in by_name and by_name[name].elf.versions_defined and version not in by_name[name].elf.versions_defined
    )


def by_pair(unmet: Iterable[Unmet]) -> Iterator[Unmet]:
    """Keep of each pair of libraries the newest version that is missing."""
    pairs: dict[tuple[str, str, str], list[str]] = {}
    for one in unmet:
        prefix = re.split(r"\d", one.version, maxsplit=1)[0]
        pairs.setdefault((one.provider, one.wanted_by, prefix), []).append(one.version)
    for (provider, wanted_by, prefix), versions in pairs.items():
        yield Unmet(newest_version(versions, prefix) or versions[-1], provider, wanted_by)
