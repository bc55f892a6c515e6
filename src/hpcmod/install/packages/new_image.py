"""Build a new image from a base image and packages of conda and pip, which are added to its compressed blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.errors import BadInputError, LackingError
from hpcmod.fs.replacing import scratch
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.fs.tree import write_file
from hpcmod.image.bake.environment import write_environment
from hpcmod.image.bake.image import BakePlan, BakeRequest, bake
from hpcmod.image.bake.writing import NewFile, Written, check_free, clear_old
from hpcmod.image.inspect.contents import read_facts
from hpcmod.image.integrity import Progress, file_sha256
from hpcmod.install.packages.builder import Builder
from hpcmod.install.packages.building import build_state, resolve_packages
from hpcmod.install.packages.changing import NO_OPTIONS, PackageChange, plan_change
from hpcmod.install.packages.sets import PackageSet, make_set
from hpcmod.model.images.facts import ImageFacts
from hpcmod.model.packages.conda import NO_CONDA, CondaPackage, CondaPart
from hpcmod.model.packages.lockfile import Lock, render_package_lock
from hpcmod.model.packages.place import USER_LAYER_IN_CONTAINER, PackagePlace, SetChoice, make_tag, state_file
from hpcmod.model.packages.plan import PackageTarget, PipOptions, StatePlan
from hpcmod.model.packages.requirement import Requirements
from hpcmod.model.packages.state import Locked, State

if TYPE_CHECKING:
    from hpcmod.install.packages.environment import CondaBase

_SCRATCH = "hpcmod-build"
_BETWEEN = "conda.sif"
"""Name of the image with the conda packages, to which pip adds its own."""
_NAME = "packages"
_VENV = f"{USER_LAYER_IN_CONTAINER}/venv/{_NAME}"


@dataclass(frozen=True)
class BaseImage:
    """An image to which packages are added."""

    sif: str
    """Path."""
    sha256: str
    shown: str
    """Its name, for messages, the lock file and the provenance file."""
    facts: ImageFacts
    reference: str = ""
    """Where it came from; empty if unknown."""

    @property
    def origin(self) -> str:
        """Return what the provenance file of a new image says about its base."""
        return f"bake:{self.shown}@sha256:{self.sha256}"


@dataclass(frozen=True)
class ImageRequest:
    """A base image, and the packages to add to it."""

    base: BaseImage
    requirements: Requirements
    out: Path
    lock_file: Path
    """Path of the lock file, which is written if `lock` is None."""
    tool: str
    """Name and version of this program, for the provenance file."""
    lock: Lock | None = None
    """Versions and hashes to install."""
    pip: PipOptions = NO_OPTIONS
    allowed: tuple[str, ...] = ()
    """Packages of the base that pip may replace."""
    conda: CondaPart = NO_CONDA
    """conda packages to add, before those of pip."""
    variables: tuple[tuple[str, str], ...] = ()
    """Further variables of the new image."""
    force: bool = False
    """Replace an existing file."""


@dataclass(frozen=True)
class NewImage:
    """An image that was built."""

    written: Written
    locked: tuple[Locked, ...]
    """Packages of pip."""
    from_base: tuple[str, ...]
    """Packages required of pip that the base or conda has, as name==version."""
    left_out: tuple[str, ...]
    """Parts of the base that are left out: its signatures."""
    python: str
    """Version of the image's Python; empty if it has none."""
    baked: BakePlan | None = None
    """What was done for pip; None if only conda packages were added."""
    conda: CondaPart = NO_CONDA
    conda_prefix: str = ""
    """Where the conda packages are; empty if there are none."""
    replaced: tuple[str, ...] = ()
    """Files of the base that conda packages replace."""


@dataclass(frozen=True)
class PlannedPackages:
    """What would be added."""

    conda: tuple[CondaPackage, ...]
    locked: tuple[Locked, ...] | None
    """Packages of pip; None if they can only be resolved once those of conda are there."""


class _NothingToAddError(BadInputError):
    """The base has all packages that pip should add."""

    def __init__(self, base: str, from_base: tuple[str, ...]) -> None:
        super().__init__(f"{base} has all of these packages: {', '.join(from_base)}", "Use that image as it is.")
        self.from_base = from_base


def read_base(sif: Path, shown: str, *, reference: str = "", sha256: str = "") -> BaseImage:
    """Read an image to which packages are added.

    Parameters
    ----------
    shown
        Name of the image for messages and for the lock file.
    reference
        Where it came from; empty if unknown.
    sha256
        Its checksum, which is compared when the new image is written; if empty, it is computed.

    Raises
    ------
    HpcmodError
        If it is not a SIF, or damaged.
    """
    return BaseImage(os.path.realpath(sif), sha256 or file_sha256(sif), shown, read_facts(sif), reference)


def make_target(base: BaseImage) -> PackageTarget:
    """Return an image as a target for packages of pip.

    Raises
    ------
    LackingError
        If it has no Python.
    """
    python = base.facts.python
    if python is None:
        raise LackingError(
            f"{base.shown}: has no Python, so pip cannot add packages to it",
            "Choose another --base, or add Python with conda: --conda python",
        )
    return PackageTarget(
        module=base.shown,
        sif=base.sif,
        sha256=base.sha256,
        python=python,
        venv=_VENV,
        place=PackagePlace(_NAME, make_tag(python.version, base.sha256)),
        packages=base.facts.packages,
        reference=base.reference,
    )


def resolve_with_packages(request: ImageRequest, builder: Builder) -> PlannedPackages:
    """Return the packages that `build_with_packages` would add; nothing is written.

    Raises
    ------
    HpcmodError
        If the file exists, or conda or pip refuses the requirements.
    """
    check_free(request.out, force=request.force)
    if not request.conda.requirements:
        plan = _plan(request, make_target(request.base), _set_in(builder.temporary))
        return PlannedPackages((), resolve_packages(plan, builder).locked)
    from hpcmod.install.packages.environment import choose_packages

    chosen = choose_packages(_conda_base(request.base), request.conda, builder)
    return PlannedPackages(chosen, None if _needs_pip(request) else ())


def build_with_packages(request: ImageRequest, builder: Builder, *, progress: Progress | None = None) -> NewImage:
    """Install the packages in a temporary directory, write the lock, and write the new image.

    Raises
    ------
    BadInputError
        If the file exists, or the base has all of the packages.
    VerificationError
        If a package does not have the hash in the lock, or the base was changed.
    HpcmodError
        If conda or pip refuses the requirements, or there is no space.
    """
    check_free(request.out, force=request.force)
    request.out.parent.mkdir(parents=True, exist_ok=True)
    clear_old(request.out)
    if not request.conda.requirements:
        return _add_with_pip(request, request.base, NO_CONDA, builder, progress)
    if not _needs_pip(request):
        return _add_with_conda(request, request.out, builder, progress)
    with scratch(request.out) as made:
        path = Path(os.path.realpath(made.directory), _BETWEEN)
        between = _add_with_conda(request, path, builder, progress)
        base = read_base(path, request.base.shown, sha256=between.written.sha256)
        try:
            built = _add_with_pip(request, base, between.conda, builder, progress)
        except _NothingToAddError as err:
            if not (between.conda.packages or request.variables):
                raise
            built = replace(_add_with_conda(request, request.out, builder, progress), from_base=err.from_base)
    return replace(
        built,
        left_out=between.left_out,
        conda=between.conda,
        conda_prefix=between.conda_prefix,
        replaced=between.replaced,
    )


def _needs_pip(request: ImageRequest) -> bool:
    return bool(request.lock.pins if request.lock else request.requirements.lines)


def _conda_base(base: BaseImage) -> CondaBase:
    from hpcmod.install.packages.environment import CondaBase

    return CondaBase(base.sif, base.shown, base.facts)


def _add_with_conda(request: ImageRequest, out: Path, builder: Builder, progress: Progress | None) -> NewImage:
    """Write an image with the conda packages; it is the last one if its path is that of the request."""
    from hpcmod.install.packages.environment import linked_environment

    base = request.base
    new = NewFile(out, request.tool, base.sha256, request.force)
    linking = linked_environment(
        _conda_base(base), request.conda, request.variables, builder, may_be_empty=_needs_pip(request)
    )
    with linking as linked:
        if out == request.out:
            lock = _write_lock(request, _make_state(request, linked.part, linked.environment.python, builder))
            new = replace(new, environ=builder.environ, reference=base.origin, lock=lock)
        made = write_environment(Path(base.sif), linked.environment, new, progress)
    return NewImage(
        written=made.written,
        locked=(),
        from_base=(),
        left_out=made.left_out,
        python=linked.environment.python or (base.facts.python.version if base.facts.python else ""),
        conda=linked.part,
        conda_prefix=linked.environment.prefix,
        replaced=made.replaced,
    )


def _make_state(request: ImageRequest, part: CondaPart, python: str, builder: Builder) -> State:
    """Return the record of an image without packages of pip, for the lock file."""
    base = request.base
    return State(
        number=1,
        tag="",
        requirements=request.requirements.lines,
        locked=(),
        module=base.shown,
        image=base.sha256,
        python=python,
        time=builder.now,
        user=builder.user,
        action="build",
        conda=part,
    )


def _write_lock(request: ImageRequest, state: State) -> str:
    """Write the lock file, unless it was given, and return its sha256."""
    if request.lock is None:
        write_file(request.lock_file, render_package_lock(state, request.variables))
    return file_sha256(request.lock_file)


def _add_with_pip(
    request: ImageRequest, base: BaseImage, part: CondaPart, builder: Builder, progress: Progress | None
) -> NewImage:
    """Write the image of the request, from one that has the conda packages already."""
    target = make_target(base)
    with _temporary_set(builder.temporary) as found:
        state = build_state(_plan(request, target, found), found, builder)
        if not state.locked:
            raise _NothingToAddError(base.shown, state.from_image)
        origin = request.base
        lock = _write_lock(request, replace(state, module=origin.shown, image=origin.sha256, conda=part))
        baked = bake(
            BakeRequest(
                image=Path(base.sif),
                packages=found.tree.root / state_file(state.number, state.tag),
                out=request.out,
                tool=request.tool,
                venv=_NAME,
                sha256=base.sha256,
                force=request.force,
                environ=builder.environ,
                reference=origin.origin,
                lock=lock,
            ),
            progress=progress,
        )
    written = Written(baked.path, baked.sha256, baked.size)
    return NewImage(written, state.locked, state.from_image, baked.plan.left_out, baked.plan.python, baked.plan)


def _plan(request: ImageRequest, target: PackageTarget, found: PackageSet) -> StatePlan:
    pip, asked = request.pip, request.requirements
    lock = replace(request.lock, conda=NO_CONDA) if request.lock else None
    if lock:  # the options of the requirements file also apply to the packages of the lock
        pip = replace(pip, words=(*pip.words, *asked.options), places=(*pip.places, *asked.places))
    change = PackageChange(added=asked, lock=lock, pip=pip, allowed=request.allowed, action="build")
    return plan_change(target, found, change)


def _set_in(directory: Path) -> PackageSet:
    return PackageSet(_NAME, SetChoice("", str(directory)), directory / _NAME)


@contextmanager
def _temporary_set(temporary: Path) -> Iterator[PackageSet]:
    """Yield an empty set of packages, removed after the block; one that a killed process left is removed first."""
    if not temporary.is_dir():
        raise LackingError(f"{temporary}: no such directory for temporary files", "Set TMPDIR to a directory.")
    clear_leftovers(temporary, _SCRATCH)
    with scratch(temporary / _SCRATCH) as made:
        found = _set_in(Path(os.path.realpath(made.directory)))
        make_set(found, None)
        yield found
