"""Values that ls, search, info and diff print with --json."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcmod.core.values.json_form import SPLICED
from hpcmod.modules.values.install_record import InstallRecord

if TYPE_CHECKING:
    from hpcmod.catalogue.finding.compare import ContainerDifference
    from hpcmod.catalogue.finding.listing import Listed
    from hpcmod.catalogue.finding.search import Hit
    from hpcmod.catalogue.values.record import CatalogueRecord
    from hpcmod.core.values.facts import ImageFacts, Package


class ContainerList(NamedTuple):
    """Containers on this machine."""

    containers: tuple[Listed, ...]


class SearchResult(NamedTuple):
    """Containers that match a name, a target or a package."""

    found: tuple[Hit, ...]


class InstalledCopy(NamedTuple):
    """An installed copy of a container."""

    root: Path
    """Directory of the installation."""
    modulefile: Path
    own: bool
    """Whether it is yours."""
    used: bool
    """Whether `module load` takes it."""
    commands: tuple[str, ...]
    """Commands of the image that its module puts on PATH; empty if not known."""


class InstalledCopies(NamedTuple):
    """What is installed of a container."""

    root: Path | None
    """Directory of the copy in use; null if none is installed."""
    copies: tuple[InstalledCopy, ...]
    """Installed copies, the one in use first."""
    user_packages: tuple[Package, ...]
    """Your own packages in the copy in use."""


@dataclass(frozen=True)
class PublishedContainer:
    """A container of a catalogue."""

    container: CatalogueRecord
    tested: bool
    """Whether its checks passed on this image when it was published."""
    catalogue: Path
    """Directory of the catalogue."""
    advisories: tuple[str, ...]
    """Known problems, as they are shown at load."""
    installed: InstalledCopies = field(metadata=SPLICED)


@dataclass(frozen=True)
class OwnContainer:
    """An installation that is in no catalogue."""

    container: None
    """Null: it is in no catalogue."""
    module: str
    """NAME/VERSION."""
    record: InstallRecord
    """Record of the installation."""
    installed: InstalledCopies = field(metadata=SPLICED)


@dataclass(frozen=True)
class ImageContent:
    """The content of a SIF."""

    image: Path
    facts: ImageFacts = field(metadata=SPLICED)
    targets: tuple[str, ...]
    """Micro-architectures that the image says it is built for, sorted; empty: not known."""


class ContainerComparison(NamedTuple):
    """Differences between two containers."""

    first: str
    """NAME/VERSION."""
    second: str
    changes: tuple[ContainerDifference, ...]
