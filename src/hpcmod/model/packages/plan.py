"""The plan of one state: what pip installs for which image, with which constraints, and where it will be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from hpcmod.errors import BadInputError
from hpcmod.model.images.facts import Package, PythonFacts
from hpcmod.model.packages.conda import NO_CONDA, CondaPart, merge_conda
from hpcmod.model.packages.files import PlacedFiles, merge_placed
from hpcmod.model.packages.place import USER_LAYER_IN_CONTAINER, PackagePlace, active_link, state_file
from hpcmod.model.packages.requirement import Requirements, name_of, normalize_package
from hpcmod.model.packages.state import Locked, State

WORK = f"{USER_LAYER_IN_CONTAINER}/.hpcmod"
"""Directory in the container for pip's input and output; it is not packed."""

OWN_PIP = f"{WORK}/pip"
"""Where hpcmod's own pip is bound for an image without one."""

_VERSION = re.compile(r"[0-9][A-Za-z0-9.!+_-]*")
_LOCAL = re.compile(r"(?:(?:[^@\s]+\s*@\s*)?file://|--[a-z-]+=file://)?(/[^\s;#\[]+)")
"""A requirement that is a path or a local URL, or an option with one."""
_VARIABLE = re.compile(r"\$\{[A-Z0-9_]+\}")  # as pip has it
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class PackageTarget:
    """The container that packages are added to."""

    module: str
    """Full name of the module."""
    sif: str
    """Path of the image."""
    sha256: str
    python: PythonFacts
    venv: str
    """Virtual environment in the container."""
    place: PackagePlace
    packages: tuple[Package, ...]
    """Python packages in the image."""
    reference: str = ""

    def find(self, name: str) -> Package | None:
        """Return a package of the image by its name."""
        return next((one for one in self.packages if normalize_package(one.name) == normalize_package(name)), None)


@dataclass(frozen=True)
class PipOptions:
    """How pip looks for packages."""

    words: tuple[str, ...] = ()
    """Options of pip, each one word: --index-url=URL, --no-index."""
    build: bool = False
    """Whether packages without a wheel are built in the container."""
    places: tuple[str, ...] = ()
    """Directories and files on the host that pip reads."""


@dataclass(frozen=True)
class StatePlan:
    """Everything that makes a new state."""

    target: PackageTarget
    directory: str
    """Directory of the set."""
    number: int
    parent: State | None
    requirements: tuple[str, ...]
    """Requirements of the new state, as typed."""
    lines: tuple[str, ...]
    """Lines for pip: requirements, or the packages of a lock file with their hashes."""
    constraints: tuple[str, ...]
    pip: PipOptions
    allowed: tuple[str, ...]
    action: str
    files: tuple[PlacedFiles, ...] = ()
    """Plain files of the new state."""
    new_files: tuple[PlacedFiles, ...] = ()
    """Those of them that are copied from their sources; the others come from `files_parent`."""
    files_parent: State | None = None
    """The parent, or with a lock the active state, which is not the parent of the packages then."""
    conda: CondaPart = NO_CONDA
    """conda packages to install before pip's."""

    @property
    def file(self) -> str:
        """Return the path of the new state, relative to the set."""
        return state_file(self.number, self.target.place.tag)

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command that runs in the container."""
        python = f"{self.target.venv}/bin/python"
        run_pip = (python, "-m", "pip") if self.target.find("pip") else (python, OWN_PIP)
        wheels = () if self.pip.build else ("--only-binary=:all:",)
        return (
            *run_pip, "install", "--no-compile", "--no-input", "--disable-pip-version-check",
            "--no-warn-script-location", "--progress-bar=off", f"--report={WORK}/report.json",
            f"--constraint={WORK}/constraints.txt", f"--requirement={WORK}/requirements.txt", *wheels,
            *(word for word in self.pip.words if not _VARIABLE.search(word)),
        )  # fmt: skip

    @property
    def pip_file(self) -> tuple[str, ...]:
        """Return the lines of the requirements file for pip, with options in which only there pip expands variables."""
        return (*(word for word in self.pip.words if _VARIABLE.search(word)), *self.lines)


def make_constraints(packages: Sequence[Package], allowed: Sequence[str]) -> tuple[str, ...]:
    """Return constraints that keep the image's packages as they are, except those that may be replaced."""
    free = {normalize_package(name) for name in allowed}
    found = {
        normalize_package(one.name): f"{one.name}=={one.version}"
        for one in reversed(packages)  # of two with one name, Python imports the first
        if _NAME.fullmatch(one.name) and _VERSION.fullmatch(one.version)
    }
    return tuple(text for name, text in sorted(found.items()) if name not in free)


def make_state_plan(
    target: PackageTarget,
    *,
    directory: str,
    number: int,
    parent: State | None,
    added: Requirements,
    dropped: Sequence[str] = (),
    pip: PipOptions,
    allowed: Sequence[str] = (),
    action: str,
    locked: tuple[str, ...] | None = None,
    keep: bool = True,
    files: Sequence[PlacedFiles] = (),
    dropped_files: Sequence[str] = (),
    files_parent: State | None = None,
    conda: CondaPart = NO_CONDA,
) -> StatePlan:
    """Plan a new state from its parent, with packages added and dropped.

    Parameters
    ----------
    locked
        Lines of a lock file, which pip gets instead of the requirements.
    keep
        Keep the parent's versions of all packages that are not requested again.
    files, dropped_files
        Plain files to add, and places of files to remove.
    files_parent
        State whose plain files are kept; None: the parent.
    conda
        conda packages to add.

    Raises
    ------
    NotFoundError, BadInputError
        If a package to drop was not requested.
    """
    names = {name_of(line) for line in added.lines} - {""}
    gone = {normalize_package(name) for name in dropped}
    before = parent.requirements if parent else ()
    before_files = files_parent or parent
    kept = tuple(line for line in before if name_of(line) not in names | gone)
    requirements = tuple(dict.fromkeys((*kept, *added.lines)))
    allow = tuple(dict.fromkeys([*(parent.allowed if parent else ()), *map(normalize_package, allowed)]))
    kept_here = {normalize_package(one.name) for one in target.packages} - set(allow)
    free = names | kept_here  # what was dropped keeps its version if another package needs it
    pins = [one for one in parent.locked if one.name not in free] if parent and keep else []
    has_hashes = any("--hash=" in line for line in requirements)
    lines = requirements if locked is None else locked
    words = (*pip.words, *added.options)
    local = (found[1] for text in (*lines, *words) if (found := _LOCAL.match(text)))
    places = [*pip.places, *added.places, *map(unquote, local)]
    return StatePlan(
        target=target,
        directory=directory,
        number=number,
        parent=parent,
        requirements=requirements,
        lines=(*lines, *_with_hashes(pins, lines)) if has_hashes and locked is None else lines,
        constraints=(
            *make_constraints(target.packages, [*allow]),
            *added.constraints,
            *(one.pin for one in pins if locked is None),
        ),
        pip=PipOptions(words, pip.build, tuple(dict.fromkeys(places))),
        allowed=allow,
        action=action,
        files=merge_placed(before_files.files if before_files else (), files, dropped_files),
        new_files=tuple(files),
        files_parent=before_files,
        conda=merge_conda(parent.conda if parent else NO_CONDA, conda, dropped, keep=keep),
    )


def _with_hashes(pins: Sequence[Locked], lines: Sequence[str]) -> Iterator[str]:
    """Yield locked packages with their hashes: if one requirement has a hash, pip wants all of them to have one."""
    named = {name_of(line) for line in lines if "--hash=" in line}
    yield from (f"{one.pin} --hash=sha256:{one.sha256}" for one in pins if one.sha256 and one.name not in named)


def check_known(parent: State | None, names: Sequence[str], module: str) -> None:
    """Check that packages to drop were requested.

    Raises
    ------
    BadInputError
        With the packages that need the ones that were not.
    """
    known = parent.names | parent.conda.names if parent else frozenset[str]()
    for name in names:
        if {normalize_package(name), name.lower()} & known:
            continue
        if parent and (parent.find(name) or parent.conda.find(name)):
            raise BadInputError(
                f"{name} was not added by you; another package of your set needs it",
                f"Drop one of those you added: {', '.join(sorted(known))}",
            )
        raise BadInputError(
            f"{name} is not among your packages for {module}", f"See: hpcmod packages {module.partition('/')[0]}"
        )


def render_state_plan(plan: StatePlan) -> Iterator[str]:
    """Yield the lines of `--dry-run`, one fact per line."""
    yield f"container: {plan.target.module}"
    yield f"image: {plan.target.sif} (sha256 {plan.target.sha256})"
    yield f"state: {plan.directory}/{plan.file}"
    yield f"active link: {plan.directory}/{active_link(plan.target.place.tag)}"
    yield from (f"requirement: {line}" for line in plan.requirements)
    yield from (f"conda requirement: {line}" for line in plan.conda.requirements)
    yield from (f"conda channel: {one}" for one in plan.conda.channels)
    kept = "conda package of the lock" if plan.conda.exact else "conda package kept"
    yield from (f"{kept}: {one.spec}" for one in plan.conda.packages)
    yield from (f"for pip: {line}" for line in plan.lines if line not in plan.requirements)
    own = len(make_constraints(plan.target.packages, plan.allowed))
    yield f"constraints: {own} packages of the image"
    yield from (f"constraint: {line}" for line in plan.constraints[own:])
    yield from (f"files: {one.place} from {one.source}" for one in plan.new_files)
    yield from (f"files: {one.place}, as before" for one in plan.files if one not in plan.new_files)
    yield from (f"may replace: {name}" for name in plan.allowed)
    yield from (f"read by pip: {place}" for place in plan.pip.places)
    yield f"in the container: {' '.join(plan.argv)}"
