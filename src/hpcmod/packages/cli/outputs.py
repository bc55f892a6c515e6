"""Values that the commands for your own packages print with --json."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.core.values.json_form import SPLICED
from hpcmod.modules.values.place import state_file
from hpcmod.packages.sets import PackageSet, WritableState
from hpcmod.packages.values.compare import PackageDifference
from hpcmod.packages.values.conda import CondaPart
from hpcmod.packages.values.state import Locked, State, StateOrigin

if TYPE_CHECKING:
    from hpcmod.packages.values.sources import Editable, LeftOut


@dataclass(frozen=True)
class ShownState:
    """A state of a set of packages."""

    number: int
    active: bool
    parent: int | None
    """Number of the state that it was made from; null for the first."""
    origin: StateOrigin = field(metadata=SPLICED)
    requirements: tuple[str, ...]
    """As typed, one per package; paths are absolute."""
    in_image: tuple[str, ...]
    """Required packages that the image has, as name==version."""
    replaces: tuple[str, ...]
    """Packages of the image that the set may replace."""
    packages: tuple[Locked, ...]
    conda: CondaPart
    programs: tuple[str, ...]
    """Programs that the packages have brought."""
    size: int
    """Bytes of its file."""
    sha256: str
    """Of its file; empty if there is none."""
    file: Path

    @classmethod
    def make(cls, owner: PackageSet, state: State) -> ShownState:
        """Return a state of a set as it is shown."""
        return cls(
            number=state.number,
            active=owner.active_number(state.tag) == state.number,
            parent=state.parent,
            origin=state.origin,
            requirements=state.requirements,
            in_image=state.from_image,
            replaces=state.allowed,
            packages=state.locked,
            conda=state.conda,
            programs=state.programs,
            size=state.size,
            sha256=state.sha256,
            file=owner.directory / state_file(state.number, state.tag),
        )


@dataclass(frozen=True)
class ShownEdit:
    """Packages that are being edited."""

    directory: Path
    base: int | None
    """Number of the state that they were; null: there was none."""
    time: str
    user: str

    @classmethod
    def make(cls, edit: WritableState) -> ShownEdit:
        """Return an edited state as it is shown."""
        return cls(edit.files, edit.base, edit.time, edit.user)


@dataclass(frozen=True)
class PackagesChange:
    """What becomes of your packages."""

    module: str
    set: str
    directory: Path
    """Directory of the set."""
    dry_run: bool
    plan: tuple[str, ...]
    """Lines of a plan that is not carried out."""
    before: int | None
    """Number of the state that was active; null if there was none."""
    state: ShownState | None
    """The state that is active now."""
    changes: tuple[PackageDifference, ...]


@dataclass(frozen=True)
class EditedPackages:
    """Your packages after an edit."""

    change: PackagesChange = field(metadata=SPLICED)
    editable: tuple[Editable, ...]
    """Packages whose code stays elsewhere."""


@dataclass(frozen=True)
class ImportedPackages:
    """With --from: your packages after packages of elsewhere were taken over."""

    change: PackagesChange = field(metadata=SPLICED)
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True)
class DiscardedEdit:
    """With --discard: the discarded changes."""

    module: str
    set: str
    discarded: ShownEdit


@dataclass(frozen=True)
class PackagesList:
    """Your packages for a container."""

    module: str
    set: str
    sets: tuple[str, ...]
    """Names of your sets for this container."""
    directory: Path
    """Directory of the set."""
    state: ShownState | None
    """The active state."""
    history: tuple[ShownState, ...]
    """With --history: all states."""
    lock: str
    """With --lock: the lock file."""
    edited: ShownEdit | None


@dataclass(frozen=True)
class StateDifference:
    """With --diff: differences between two states."""

    module: str
    set: str
    before: int
    after: int
    changes: tuple[PackageDifference, ...]


@dataclass(frozen=True)
class RemovedState:
    """A removed state."""

    number: int
    size: int
    """Bytes."""


@dataclass(frozen=True)
class RemovedStates:
    """With --gc: the removed states."""

    module: str
    set: str
    dry_run: bool
    removed: tuple[RemovedState, ...]
