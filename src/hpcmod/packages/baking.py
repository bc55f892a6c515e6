"""Put packages of conda and pip into a new image: install them in a temporary directory, and add them to the base."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.replacing import scratch
from hpcmod.core.fs.tree import write_file
from hpcmod.core.values.json_form import SPLICED
from hpcmod.modules.values.place import USER_LAYER_IN_CONTAINER, PackagePlace, make_tag, state_file
from hpcmod.packages.bake.environment import write_environment
from hpcmod.packages.bake.image import BakedPackages, BaseImage, bake, read_base
from hpcmod.packages.bake.writing import NewFile, check_free
from hpcmod.packages.builder import Builder
from hpcmod.packages.building import build_state, resolve_packages
from hpcmod.packages.changing import plan_change
from hpcmod.packages.sets import TEMPORARY, PackageSet, set_in, temporary_set
from hpcmod.packages.values.conda import NO_CONDA, CondaPackage, CondaPart
from hpcmod.packages.values.lockfile import render_package_lock
from hpcmod.packages.values.plan import PackageChange, PackageTarget, StatePlan
from hpcmod.packages.values.state import State, StateOrigin

_BETWEEN = "conda.sif"
"""Name of the image with the conda packages, to which pip adds its own."""
_VENV = f"{USER_LAYER_IN_CONTAINER}/venv/{TEMPORARY}"


@dataclass(frozen=True)
class BakeRequest:
    """A base image, and the packages to install into a new one."""

    base: BaseImage
    change: PackageChange
    new: NewFile
    given_lock: Path | None = None
    """The lock file that the packages are from."""

    @property
    def needs_pip(self) -> bool:
        """Return whether there are packages for pip."""
        return bool(self.change.added.lines if self.change.locked is None else self.change.locked)

    @property
    def lock(self) -> Path:
        """Return the path of the lock file, which is written next to the image unless it was given."""
        name = self.new.out.stem.replace(".", "-")  # PEP 751 has no other dots in the names of such files
        return self.given_lock or self.new.out.with_name(f"pylock.{name}.toml")


@dataclass(frozen=True)
class CondaAdded:
    """What conda added to an image, or would add."""

    conda: tuple[CondaPackage, ...] = ()
    conda_prefix: str = ""
    replaced: tuple[str, ...] = ()
    """Files of the base that conda packages replace."""


@dataclass(frozen=True)
class Baked:
    """A new image with packages, or the plan for one."""

    base: str
    base_sha256: str
    """Empty if it is not needed."""
    path: str
    image: BakedPackages = field(default=BakedPackages(), metadata=SPLICED)
    packages: str = ""
    """The user's own packages that are added; empty for others."""
    requirements: tuple[str, ...] = ()
    """Requirements for pip."""
    in_base: tuple[str, ...] = ()
    """Packages required of pip that the base or conda has, as NAME==VERSION."""
    conda_requirements: tuple[str, ...] = ()
    of_conda: CondaAdded = field(default=CondaAdded(), metadata=SPLICED)
    lock: str = ""
    """Lock file with the versions and hashes; empty for the user's own packages."""


def bake_own(base: BaseImage, packages: Path, new: NewFile, *, venv: str, dry_run: bool) -> Baked:
    """Put the user's own packages, a directory or a squashfs, into a new image; or return the plan.

    Raises HpcmodError as `bake`.
    """
    new = replace(new, sha256=base.sha256)
    image = bake(Path(base.sif), packages, new, venv=venv, dry_run=dry_run)
    return Baked(base.shown, base.sha256, str(new.out), image, packages=str(packages))


def _begin(request: BakeRequest) -> Baked:
    base, change = request.base, request.change
    return Baked(
        base.shown,
        base.sha256,
        str(request.new.out),
        requirements=change.added.lines,
        conda_requirements=change.conda.requirements,
        lock=str(request.lock),
    )


def plan_packages(request: BakeRequest, builder: Builder) -> Baked:
    """Return what `bake_packages` would add; nothing is written.

    Raises HpcmodError if the file exists, or conda or pip refuses the requirements.
    """
    check_free(request.new.out, force=request.new.force)
    baked = _begin(request)
    if not request.change.conda.requirements:
        plan = _plan_pip(request, request.base, set_in(builder.temporary))
        added = tuple(package.pin for package in resolve_packages(plan, builder)[0])
        return replace(baked, image=BakedPackages(added=added))
    from hpcmod.packages.environment import choose_packages  # needs an optional library

    chosen = choose_packages(request.base, request.change.conda, builder)
    image = BakedPackages(added=None if request.needs_pip else ())
    return replace(baked, image=image, of_conda=CondaAdded(chosen))


def bake_packages(request: BakeRequest, builder: Builder) -> Baked:
    """Install packages in a temporary directory, write the lock, and write the new image.

    Raises BadInputError if the file exists, or the base has all of the packages; VerificationError if a package does
    not have the hash in the lock, or the base was changed; HpcmodError if conda or pip refuses the requirements, or
    there is no space.
    """
    out = request.new.out
    check_free(out, force=request.new.force)
    out.parent.mkdir(parents=True, exist_ok=True)
    baked = _begin(request)
    if not request.change.conda.requirements:
        return _add_with_pip(request, request.base, baked, builder)
    if not request.needs_pip:
        return _add_with_conda(request, out, baked, builder)
    with scratch(out) as made:
        path = Path(os.path.realpath(made.directory), _BETWEEN)
        between = _add_with_conda(request, path, baked, builder)
        base = read_base(path, request.base.shown, sha256=between.image.sha256)
        return _add_with_pip(request, base, between, builder)


def _add_with_conda(request: BakeRequest, out: Path, baked: Baked, builder: Builder) -> Baked:
    """Write an image with the conda packages; it is the last one if its path is that of the request."""
    from hpcmod.packages.environment import linked_environment  # needs an optional library

    base, is_last = request.base, out == request.new.out
    new = replace(request.new, out=out, sha256=base.sha256)
    linking = linked_environment(base, request.change.conda, builder, may_be_empty=not is_last)
    with linking as (environment, part):
        if is_last:
            origin = StateOrigin(base.shown, base.sha256, environment.python, builder.now, builder.user, "bake")
            lock = _write_lock(request, State(1, "", (), (), origin, conda=part))
            new = replace(new, reference=base.origin, lock=lock)
        else:
            new = replace(new, environ={})  # so that the provenance of this file is not remembered
        image, replaced = write_environment(Path(base.sif), environment, new)
    python = environment.python or (base.facts.python.version if base.facts.python else "")
    added = CondaAdded(part.packages, environment.prefix, replaced)
    return replace(baked, image=replace(image, python=python), of_conda=added)


def _write_lock(request: BakeRequest, state: State) -> str:
    """Write the lock file, unless it was given, and return its sha256."""
    if request.given_lock is None:
        write_file(request.lock, render_package_lock(state))
    return file_sha256(request.lock)


def _add_with_pip(request: BakeRequest, base: BaseImage, baked: Baked, builder: Builder) -> Baked:
    """Write the image of the request, from one that has the conda packages already."""
    with temporary_set(builder.temporary) as made:
        state = build_state(_plan_pip(request, base, made), made, builder)
        if not state.locked:
            raise BadInputError(
                f"{base.shown} has all of these packages: {', '.join(state.from_image)}", "Leave them out."
            )
        part = CondaPart(baked.conda_requirements, request.change.conda.channels, baked.of_conda.conda)
        origin = replace(state.origin, module=request.base.shown, image=request.base.sha256)
        lock = _write_lock(request, replace(state, origin=origin, conda=part))
        new = replace(request.new, sha256=base.sha256, reference=request.base.origin, lock=lock)
        packages = made.tree.root / state_file(state.number, state.tag)
        image = bake(Path(base.sif), packages, new, venv=TEMPORARY)
    left_out = baked.image.left_out or image.left_out
    return replace(baked, in_base=state.from_image, image=replace(image, left_out=left_out))


def _plan_pip(request: BakeRequest, base: BaseImage, made: PackageSet) -> StatePlan:
    return plan_change(make_target(base), made, replace(request.change, conda=NO_CONDA, action="bake"))


def make_target(base: BaseImage) -> PackageTarget:
    """Return an image as a target for packages of pip.

    Raises LackingError if it has no Python.
    """
    python = base.facts.python
    if python is None:
        raise LackingError(
            f"{base.shown}: has no Python, so pip cannot add packages to it",
            "Choose another image, or add Python with conda: --conda python",
        )
    return PackageTarget(
        module=base.shown,
        sif=base.sif,
        sha256=base.sha256,
        python=python,
        venv=_VENV,
        place=PackagePlace(TEMPORARY, make_tag(python.version, base.sha256)),
        packages=base.facts.packages,
    )
