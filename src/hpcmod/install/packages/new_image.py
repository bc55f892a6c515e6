"""Build a new image from a base image and requirements: pip of the base installs them, and they are baked into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.errors import BadInputError, LackingError
from hpcmod.fs.replacing import scratch
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.fs.tree import write_file
from hpcmod.image.bake.image import Baked, BakeRequest, bake, check_free
from hpcmod.image.inspect.contents import read_facts
from hpcmod.image.integrity import Progress, file_sha256
from hpcmod.install.packages.builder import Builder
from hpcmod.install.packages.building import build_state, resolve_packages
from hpcmod.install.packages.changing import NO_OPTIONS, PackageChange, plan_change
from hpcmod.install.packages.sets import PackageSet, make_set
from hpcmod.model.packages.lockfile import Lock, render_package_lock
from hpcmod.model.packages.place import USER_LAYER_IN_CONTAINER, PackagePlace, SetChoice, make_tag, state_file
from hpcmod.model.packages.plan import PackageTarget, PipOptions, StatePlan
from hpcmod.model.packages.requirement import Requirements
from hpcmod.model.packages.state import Locked

_SCRATCH = "hpcmod-build"
_NAME = "packages"
_VENV = f"{USER_LAYER_IN_CONTAINER}/venv/{_NAME}"


@dataclass(frozen=True)
class ImageRequest:
    """A base image, and the packages to add to it."""

    base: PackageTarget
    requirements: Requirements
    out: Path
    lock_file: Path
    """Path of the lock file to write; None if it was given."""
    tool: str
    """Name and version of this program, for the provenance file."""
    lock: Lock | None = None
    """Versions and hashes to install."""
    pip: PipOptions = NO_OPTIONS
    allowed: tuple[str, ...] = ()
    """Packages of the base that may be replaced."""
    force: bool = False
    """Replace an existing file."""


@dataclass(frozen=True)
class NewImage:
    """An image that was built."""

    baked: Baked
    locked: tuple[Locked, ...]
    from_base: tuple[str, ...]
    """Required packages that the base has, as name==version."""


def read_base(sif: Path, shown: str, *, reference: str = "", sha256: str = "") -> PackageTarget:
    """Return an image as a target for packages.

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
    LackingError
        If it has no Python.
    HpcmodError
        If it is not a SIF, or damaged.
    """
    facts = read_facts(sif)
    if facts.python is None:
        raise LackingError(f"{shown}: has no Python, so no packages can be added to it", "Choose another --base.")
    found = sha256 or file_sha256(sif)
    return PackageTarget(
        module=shown,
        sif=os.path.realpath(sif),
        sha256=found,
        python=facts.python,
        venv=_VENV,
        place=PackagePlace(_NAME, make_tag(facts.python.version, found)),
        packages=facts.packages,
        reference=reference,
    )


def resolve_with_packages(request: ImageRequest, builder: Builder) -> tuple[Locked, ...]:
    """Return the packages that `build_with_packages` would add; nothing is written.

    Raises
    ------
    HpcmodError
        If the file exists, or pip refuses the requirements.
    """
    check_free(request.out, force=request.force)
    return resolve_packages(_plan(request, _set_in(builder.temporary)), builder).locked


def build_with_packages(request: ImageRequest, builder: Builder, *, progress: Progress | None = None) -> NewImage:
    """Install the packages in a temporary directory, write the lock, and write the new image.

    Raises
    ------
    BadInputError
        If the file exists, or the base has all of the packages.
    VerificationError
        If a package does not have the hash in the lock, or the base was changed.
    HpcmodError
        If pip refuses the requirements, or there is no space.
    """
    check_free(request.out, force=request.force)
    base = request.base
    request.out.parent.mkdir(parents=True, exist_ok=True)
    with _temporary_set(builder.temporary) as found:
        state = build_state(_plan(request, found), found, builder)
        if not state.locked:
            raise BadInputError(
                f"{base.module} has all of these packages: {', '.join(state.from_image)}", "Use that image as it is."
            )
        if request.lock is None:
            write_file(request.lock_file, render_package_lock(state))
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
                shown=base.module,
            ),
            progress=progress,
        )
    return NewImage(baked, state.locked, state.from_image)


def _plan(request: ImageRequest, found: PackageSet) -> StatePlan:
    pip, asked = request.pip, request.requirements
    if request.lock:  # the options of the requirements file also apply to the packages of the lock
        pip = replace(pip, words=(*pip.words, *asked.options), places=(*pip.places, *asked.places))
    change = PackageChange(added=asked, lock=request.lock, pip=pip, allowed=request.allowed, action="build")
    return plan_change(request.base, found, change)


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
