"""Write a new SIF from an image and a user's packages, without starting a container or unpacking the image."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hpcmod.core.errors import BadInputError, LackingError, VerificationError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.values.facts import ImageFacts, PythonFacts
from hpcmod.images import Sif, Squashfs
from hpcmod.images.inspect.contents import (
    BAKED_IN_CONTAINER,
    baked_prefixes,
    find_python,
    read_environment,
    site_directories,
)
from hpcmod.packages.bake.packages import PackageTree, Venv, open_packages
from hpcmod.packages.bake.placement import OF_EMPTY_VENV, Target, find_new_commands, place_packages
from hpcmod.packages.bake.writing import Addition, NewFile, check_free, needed_room, open_image, write_image
from hpcmod.packages.values.sources import Editable

_LABEL = "org.hpcmod.bake"


@dataclass(frozen=True)
class BaseImage:
    """An image to which packages are added."""

    sif: str
    """Path."""
    sha256: str
    """Empty if unknown."""
    shown: str
    """Its name, for messages, the lock file and the provenance file."""
    facts: ImageFacts

    @property
    def origin(self) -> str:
        """Return what the provenance file of a new image says about its base."""
        return f"bake:{self.shown}@sha256:{self.sha256}"


def read_base(sif: Path, shown: str, *, sha256: str | None = None) -> BaseImage:
    """Read an image to which packages are added.

    `sha256`: Its checksum, which is compared when the new image is written; None to compute it, empty if it is not
        needed.

    Raises HpcmodError if it is not a SIF, or damaged.
    """
    return BaseImage(os.path.realpath(sif), file_sha256(sif) if sha256 is None else sha256, shown, Sif(sif).facts())


@dataclass(frozen=True)
class BakedPackages:
    """What a bake adds to an image, or would add."""

    python: str = ""
    """Version of the image's Python; empty if it has none, or in the plan for packages of an index."""
    prefix: str = ""
    """Where the packages of pip are in the image."""
    added: tuple[str, ...] | None = ()
    """Packages of pip, as NAME==VERSION; None in a plan that installs conda packages first."""
    commands: tuple[str, ...] = ()
    """Commands of pip's packages that are added next to the image's Python."""
    left_out: tuple[str, ...] = ()
    """Parts of the image that are left out of the new SIF: its signatures."""
    editable: tuple[Editable, ...] = ()
    """Packages whose code is not in the new SIF, because it is elsewhere."""
    size: int = 0
    """Bytes of the new SIF; in a plan at most, or 0 if unknown."""
    sha256: str = ""
    """Of the new SIF; empty in a plan."""


def bake(image: Path, packages: Path, new: NewFile, *, venv: str = "", dry_run: bool = False) -> BakedPackages:
    """Write the new SIF and its provenance file; it gets its final name once it is complete and checked.

    `packages`: A directory or a squashfs with `venv/NAME/...`, as it is at /user-software.
    `venv`: Virtual environment to prefer if there are several.

    Raises NotFoundError if the image or the packages are missing; BadInputError if the output exists, the image has no
    Python, or the packages are for another one; VerificationError if the image is damaged or does not have the expected
    checksum; NoSpaceError if the SIF does not fit.
    """
    check_free(new.out, force=new.force)
    with open_image(image) as source, open_packages(packages) as files:
        target = _find_target(source.squashfs, image)
        chosen = _choose_venv(files, target.python, packages, venv)
        added = tuple(f"{package.name}=={package.version}" for package in files.packages(chosen.site))
        addition = Addition(
            label=_LABEL,
            packages=added,
            prefix=target.prefix,
            size=files.size,
            place=partial(place_packages, packages=files, venv=chosen, target=target),
            write_contents=files.write_contents,
            check=partial(_check, python=target.python, added=added),
        )
        planned = BakedPackages(
            python=target.python.version,
            prefix=target.prefix,
            added=added,
            commands=tuple(map(os.fsdecode, find_new_commands(source.tree.root, chosen, target))),
            left_out=source.left_out,
            editable=files.editable(chosen.site),
            size=needed_room(source, addition),
        )
        if dry_run:
            return planned
        provenance = write_image(source, addition, new)
        return replace(planned, size=provenance.size, sha256=provenance.sha256)


def _find_target(squashfs: Squashfs, image: Path) -> Target:
    python = find_python(squashfs, *read_environment(squashfs))
    if python is None:
        raise LackingError(f"{image}: has no Python, so no packages can be added to it")
    baked = baked_prefixes(squashfs)
    own = [site for site in site_directories(squashfs, python) if not site.startswith(f"{BAKED_IN_CONTAINER}/")]
    commands = squashfs.real_path(f"{python.prefix}/bin")
    if not own or not commands:
        raise LackingError(f"{image}: no directory of packages found for {python.executable}")
    number = 1 + int(baked[0].rpartition("/")[2]) if baked else 1
    return Target(python, own[0], commands, number)


def _choose_venv(packages: PackageTree, python: PythonFacts, path: Path, preferred: str) -> Venv:
    """Return the virtual environment that fits the image's Python, and has something to add."""
    venvs = packages.venvs()
    if not venvs:
        raise BadInputError(
            f"{path}: no packages: expected venv/NAME/lib/python{python.version}/site-packages in it",
            "Give the directory or squashfs that is mounted at /user-software in the container: --packages PATH",
        )
    fitting = [venv for venv in venvs if venv.python == python.version]
    if not fitting:
        raise LackingError(
            f"{path}: its packages are for Python {venvs[0].python}, the image has {python.version}",
            "Install the packages again on this image.",
        )
    named = [venv for venv in fitting if venv.name == preferred]
    if len(fitting) > 1 and not named:
        names = ", ".join(venv.name for venv in fitting)
        raise BadInputError(f"{path}: several virtual environments: {names}", "Move all but one elsewhere.")
    chosen = (named or fitting)[0]
    if b"conda-meta" in chosen.root.children:
        raise BadInputError(
            f"{path}: has conda packages, which cannot be moved to another place: their files name their path",
            "Install them into the image from a lock file: hpcmod packages CONTAINER --lock > pylock.toml; "
            "hpcmod bake CONTAINER --lock pylock.toml -o OUT.sif",
        )
    has_packages = any(name not in OF_EMPTY_VENV for name in chosen.site.children)
    if not has_packages and not set(packages.root.children) - {b"venv"}:
        raise BadInputError(
            f"{path}: the virtual environment {chosen.name} has no packages, so there is nothing to add",
            "Install some first: hpcmod add CONTAINER PACKAGE",
        )
    return chosen


def _check(path: Path, *, python: PythonFacts, added: tuple[str, ...]) -> None:
    """Check that a new image has the Python and all added packages."""
    facts = Sif(path).facts()
    inside = {f"{package.name}=={package.version}" for package in facts.packages}
    missing = [name for name in added if name not in inside]
    if facts.python != python or missing:
        raise VerificationError(
            f"the written image lacks {', '.join(missing) or 'its Python'}",
            "This is a bug in hpcmod: please report it with the output of `hpcmod bake --dry-run`.",
        )
