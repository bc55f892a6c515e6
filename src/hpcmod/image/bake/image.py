"""Write a new SIF from an image and a user's packages, without starting a container or unpacking the image."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.errors import BadInputError, LackingError, VerificationError
from hpcmod.image.bake.packages import PackageTree, Venv, open_packages
from hpcmod.image.bake.placement import OF_EMPTY_VENV, Target, find_new_commands, place_packages
from hpcmod.image.bake.writing import (
    Addition,
    NewFile,
    SourceImage,
    check_free,
    clear_old,
    open_image,
    write_image,
)
from hpcmod.image.inspect.contents import (
    BAKED_IN_CONTAINER,
    baked_prefixes,
    find_python,
    read_environment,
    read_facts,
    site_directories,
)
from hpcmod.image.integrity import Progress
from hpcmod.image.squashfs.reader import Squashfs
from hpcmod.model.images.facts import PythonFacts
from hpcmod.model.packages.sources import Editable

_LABEL = "org.hpcmod.bake"


@dataclass(frozen=True)
class BakeRequest:
    """An image, and the packages to add to it."""

    image: Path
    packages: Path
    """A directory or a squashfs with `venv/NAME/...`, as it is at /user-software."""
    out: Path
    tool: str
    """Name and version of this program, for the provenance file."""
    venv: str = ""
    """Virtual environment to prefer if there are several."""
    sha256: str = ""
    """Expected checksum of the image; empty if unknown."""
    force: bool = False
    """Replace an existing file."""
    environ: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    """What it was made from, for the provenance file; empty for the path and checksum of the image."""
    lock: str = ""
    """sha256 of the lock file, for the provenance file; empty if there is none."""


@dataclass(frozen=True)
class BakePlan:
    """What a bake adds to an image."""

    image: str
    packages: str
    path: str
    python: str
    """Version of the image's Python."""
    prefix: str
    """Prefix of the added packages in the image."""
    added: tuple[str, ...]
    """Packages, as NAME==VERSION."""
    commands: tuple[str, ...]
    """Commands added next to the image's Python."""
    files: int
    """Number of added files."""
    bytes: int
    """Largest expected size of the new SIF."""
    left_out: tuple[str, ...]
    """Parts of the image that are left out of the new SIF: its signatures."""
    editable: tuple[Editable, ...]
    """Packages whose code is not in the new SIF, because it is elsewhere."""


@dataclass(frozen=True)
class Baked:
    """A baked image."""

    path: Path
    sha256: str
    size: int
    plan: BakePlan


def plan_bake(request: BakeRequest) -> BakePlan:
    """Plan what `bake` would do.

    Raises
    ------
    HpcmodError
        As `bake` before it writes.
    """
    with _prepared(request) as bake:
        return bake.plan


def bake(request: BakeRequest, *, progress: Progress | None = None) -> Baked:
    """Write the new SIF and its provenance file; it gets its final name once it is complete and checked.

    Raises
    ------
    NotFoundError
        If the image or the packages are missing.
    BadInputError
        If the output exists, the image has no Python, or the packages are for another one.
    VerificationError
        If the image is damaged or does not have the expected checksum.
    NoSpaceError
        If the SIF does not fit.
    """
    clear_old(request.out)
    with _prepared(request) as prepared:
        new = NewFile(
            out=request.out,
            tool=request.tool,
            sha256=request.sha256,
            force=request.force,
            environ=request.environ,
            reference=request.reference,
            lock=request.lock,
        )
        written = write_image(prepared.image, prepared.addition, new, progress)
    return Baked(request.out, written.sha256, written.size, prepared.plan)


@contextmanager
def _prepared(request: BakeRequest) -> Iterator[_Prepared]:
    check_free(request.out, force=request.force)
    with open_image(request.image) as image, open_packages(request.packages) as packages:
        target = _find_target(image.squashfs, Path(image.sif.path))
        venv = _choose_venv(packages, target.python, request)
        _check_something_to_add(packages, venv, request)
        yield _Prepared(request, image, packages, target, venv)


def _find_target(squashfs: Squashfs, image: Path) -> Target:
    python = find_python(squashfs, *read_environment(squashfs))
    if python is None:
        raise LackingError(f"{image}: has no Python, so no packages can be added to it")
    baked = baked_prefixes(squashfs)
    own = [place for place in site_directories(squashfs, python) if not place.startswith(f"{BAKED_IN_CONTAINER}/")]
    commands = squashfs.real_path(f"{python.prefix}/bin")
    if not own or not commands:
        raise LackingError(f"{image}: no directory of packages found for {python.executable}")
    number = 1 + int(baked[0].rpartition("/")[2]) if baked else 1
    return Target(python, own[0], commands, number)


def _choose_venv(packages: PackageTree, python: PythonFacts, request: BakeRequest) -> Venv:
    found = packages.venvs()
    if not found:
        raise BadInputError(
            f"{request.packages}: no packages: expected venv/NAME/lib/python{python.version}/site-packages in it",
            "Give the directory or squashfs that is mounted at /user-software in the container: --packages PATH",
        )
    fitting = [venv for venv in found if venv.python == python.version]
    if not fitting:
        raise LackingError(
            f"{request.packages}: its packages are for Python {found[0].python}, the image has {python.version}",
            "Install the packages again on this image.",
        )
    preferred = [venv for venv in fitting if venv.name == request.venv]
    if len(fitting) > 1 and not preferred:
        names = ", ".join(venv.name for venv in fitting)
        raise BadInputError(
            f"{request.packages}: several virtual environments: {names}", "Choose one with --venv NAME."
        )
    chosen = (preferred or fitting)[0]
    if b"conda-meta" in chosen.root.children:
        raise BadInputError(
            f"{request.packages}: has conda packages, which cannot be moved to another place: "
            "their files name their path",
            "Build the image from their lock file: hpcmod packages CONTAINER --lock > my.lock; "
            "hpcmod build --lock my.lock --base CONTAINER -o OUT.sif",
        )
    return chosen


def _check_something_to_add(packages: PackageTree, venv: Venv, request: BakeRequest) -> None:
    """Check that there is more than an empty virtual environment."""
    if any(name not in OF_EMPTY_VENV for name in venv.site.children) or set(packages.root.children) - {b"venv"}:
        return
    raise BadInputError(
        f"{request.packages}: the virtual environment {venv.name} has no packages, so there is nothing to add",
        "Install some first, `hpcmod add CONTAINER PACKAGE`, or choose another environment with --venv NAME.",
    )


class _Prepared:
    """A bake whose inputs are open and have been read."""

    def __init__(
        self, request: BakeRequest, image: SourceImage, packages: PackageTree, target: Target, venv: Venv
    ) -> None:
        self.request, self.image, self.target = request, image, target
        self._packages, self._venv = packages, venv
        self.plan = self._make_plan()

    def _make_plan(self) -> BakePlan:
        added = self._packages.packages(self._venv.site)
        commands = find_new_commands(self.image.tree.root, self._venv, self.target)
        return BakePlan(
            image=str(self.request.image),
            packages=str(self.request.packages),
            path=str(self.request.out),
            python=self.target.python.version,
            prefix=self.target.prefix,
            added=tuple(f"{one.name}=={one.version}" for one in added),
            commands=tuple(map(os.fsdecode, commands)),
            files=self._packages.files,
            bytes=self.image.sif.size + self._largest,
            left_out=self.image.left_out,
            editable=self._packages.editable(self._venv.site),
        )

    @property
    def _largest(self) -> int:
        return self._packages.size + (1 << 20)

    @property
    def addition(self) -> Addition:
        """Return what is added to the image."""
        added = " ".join(self.plan.added)
        return Addition(
            label=_LABEL,
            labels={"packages": added, "prefix": self.plan.prefix},
            identity=f"{self.plan.prefix} {added} {self._packages.size}",
            bytes=self._largest,
            place=lambda root, add_text: place_packages(root, self._packages, self._venv, self.target, add_text),
            write_contents=self._packages.write_contents,
            check=self._check,
        )

    def _check(self, path: Path) -> None:
        """Check that the new image has the Python and all added packages."""
        facts = read_facts(path)
        found = {f"{one.name}=={one.version}" for one in facts.packages}
        missing = [name for name in self.plan.added if name not in found]
        if facts.python != self.target.python or missing:
            raise VerificationError(
                f"{self.request.out}: the written image lacks {', '.join(missing) or 'its Python'}",
                "This is a bug in hpcmod: please report it with the output of `hpcmod bake --dry-run`.",
            )
