"""The plan of one state: what pip installs for which image, with which constraints, and where it will be."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import Package, PythonFacts
from hpcmod.modules.values.place import USER_LAYER_IN_CONTAINER, PackagePlace, active_link, state_file
from hpcmod.packages.values.conda import NO_CONDA, CondaPart, merge_conda
from hpcmod.packages.values.requirement import (
    NOTHING,
    Requirements,
    applies,
    check_line,
    check_option,
    exact_line,
    is_secret,
    name_of,
    needs_build,
    normalize_package,
    place_of,
    without_credentials,
    without_logins,
)
from hpcmod.packages.values.state import Locked, State

WORK = f"{USER_LAYER_IN_CONTAINER}/.hpcmod"
"""Directory in the container for pip's input and output; it is not packed."""

OWN_PIP = f"{WORK}/pip"
"""Where hpcmod's own pip is bound for an image without one."""


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

    @property
    def venv_path(self) -> str:
        """Return the path of the virtual environment below /user-software."""
        return posixpath.relpath(self.venv, USER_LAYER_IN_CONTAINER)

    def find(self, name: str) -> Package | None:
        """Return a package of the image by its name."""
        wanted = normalize_package(name)
        return next((package for package in self.packages if normalize_package(package.name) == wanted), None)


@dataclass(frozen=True)
class PipOptions:
    """How pip looks for packages."""

    words: tuple[str, ...] = ()
    """Options of pip, each one word: --index-url=URL, --no-index."""
    build: bool = False
    """Whether packages without a wheel are built in the container."""


NO_OPTIONS = PipOptions()


@dataclass(frozen=True)
class PackageChange:
    """A requested change of a set."""

    added: Requirements = NOTHING
    conda: CondaPart = NO_CONDA
    """conda packages to add."""
    dropped: tuple[str, ...] = ()
    """Packages to remove, of pip or conda."""
    locked: tuple[str, ...] | None = None
    """Lines of a lock file, which pip gets instead of the requirements; all earlier packages are then replaced."""
    requires_python: str = ""
    """Versions of Python that the lock file is for; empty for all."""
    environments: tuple[str, ...] = ()
    """Markers of a lock file, one of which must hold; empty for all environments."""
    pip: PipOptions = NO_OPTIONS
    allowed: tuple[str, ...] = ()
    """Packages of the image that may be replaced."""
    action: str = ""
    """As typed, for the history."""

    @property
    def adds(self) -> bool:
        """Return whether packages are added."""
        return bool(self.added.lines or self.conda.requirements) or self.locked is not None

    def is_done(self, active: State | None) -> bool:
        """Return whether the active state is the result of the same removal, which may have been killed at its end."""
        return active is not None and bool(self.dropped) and active.origin.action == self.action


@dataclass(frozen=True)
class StatePlan:
    """Everything that makes a new state."""

    target: PackageTarget
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
        run_pip = (python, "-I", "-m", "pip") if self.target.find("pip") else (python, OWN_PIP)
        wheels = () if self.pip.build else ("--only-binary=:all:",)
        return (
            *run_pip, "install", "--no-compile", "--no-input", "--disable-pip-version-check",
            "--no-warn-script-location", "--progress-bar=off", f"--report={WORK}/report.json",
            f"--constraint={WORK}/constraints.txt", f"--requirement={WORK}/requirements.txt", *wheels,
            *(() if self._has_secrets else self.pip.words),
        )  # fmt: skip

    @property
    def places(self) -> tuple[str, ...]:
        """Return the directories and files on the host that pip reads."""
        return tuple(dict.fromkeys(filter(None, map(place_of, (*self.pip.words, *self.lines)))))

    @property
    def _has_secrets(self) -> bool:
        """Return whether an option has a login, which other users could read in the list of processes."""
        return any(map(is_secret, self.pip.words))

    @property
    def requirements_file(self) -> tuple[str, ...]:
        """Return the lines of the requirements file for pip, with the options if one is secret or has a variable.

        Raises BadInputError if text of a record, a lock or a file is not one requirement, or would have to be built,
        which was not allowed.
        """
        return (*(map(check_option, self.pip.words) if self._has_secrets else ()), *map(self.check, self.lines))

    @property
    def constraints_file(self) -> tuple[str, ...]:
        """Return the lines of the constraints file for pip.

        Raises BadInputError as `requirements_file`.
        """
        return tuple(map(self.check, self.constraints))

    def check(self, line: str) -> str:
        """Return a line that pip may read: of URLs and paths, pip builds all but wheels, whatever its options say."""
        if needs_build(check_line(line)) and not self.pip.build:
            raise BadInputError(
                f"{without_logins(line)} is not a wheel, and building it would run its code",
                "To build it in the container: --build",
            )
        return line


def make_constraints(packages: Sequence[Package], allowed: Sequence[str]) -> tuple[str, ...]:
    """Return constraints that keep the image's packages as they are, except those that may be replaced."""
    free = {normalize_package(name) for name in allowed}
    lines = {
        normalize_package(package.name): line
        for package in reversed(packages)  # of two with one name, Python imports the first
        if (line := exact_line(package.name, package.version))
    }
    return tuple(text for name, text in sorted(lines.items()) if name not in free)


def make_state_plan(
    target: PackageTarget,
    change: PackageChange,
    *,
    number: int,
    parent: State | None,
    keep: bool = True,
) -> StatePlan:
    """Plan a new state from its parent and a change.

    `keep`: Keep the parent's versions of all packages that are not requested again.

    Raises BadInputError if something would have to be built, which was not allowed.
    """
    before = parent if change.locked is None else None
    _check_lock(target, change)
    requirements = _merge_requirements(before, change)
    allowed = tuple(dict.fromkeys([*(before.allowed if before else ()), *map(normalize_package, change.allowed)]))
    pins = list(_choose_pins(target, before, change, allowed)) if before and keep else []
    lines = requirements if change.locked is None else change.locked
    plan = StatePlan(
        target=target,
        number=number,
        parent=before,
        requirements=requirements,
        lines=(*lines, *_with_hashes(pins, lines)),
        constraints=(
            *make_constraints(target.packages, allowed),
            *change.added.constraints,
            *(package.pin for package in pins),
        ),
        pip=PipOptions((*change.pip.words, *change.added.options), change.pip.build),
        allowed=allowed,
        action=change.action,
        conda=merge_conda(before.conda if before else NO_CONDA, change.conda, change.dropped, keep=keep),
    )
    for line in (*plan.lines, *plan.constraints):
        plan.check(line)
    return plan


def _check_lock(target: PackageTarget, change: PackageChange) -> None:
    """Check that a lock file is for the Python of the image and this machine, and has the packages that it requires.

    Raises BadInputError if not: the next change would take what is missing from an index, without its hash.
    """
    python, cure = target.python.version, f"Lock the packages again, for Python {target.python.version}."
    if not any(SpecifierSet(change.requires_python).contains(f"{python}.{patch}") for patch in range(100)):
        raise BadInputError(f"the lock file is for Python {change.requires_python}, not for {python}", cure)
    if change.environments and not any(applies(f";{marker}", python) for marker in change.environments):
        raise BadInputError(f"the lock file is for other machines: {' or '.join(change.environments)}", cure)
    locked = {name_of(line) for line in change.locked or ()}
    for line in change.added.lines if change.locked is not None and not change.conda.packages else ():
        if name_of(line) not in {*locked, ""} and not target.find(name_of(line)) and applies(line, python):
            raise BadInputError(f"the lock file requires {line}, and has no file for it; nor has the image", cure)


def _merge_requirements(before: State | None, change: PackageChange) -> tuple[str, ...]:
    """Return the requirements of a new state: those added replace earlier ones for the same package."""
    name_in = before.name_in if before else name_of
    replaced = set(map(name_in, change.added.lines)) - {""}
    gone = replaced | {normalize_package(name) for name in change.dropped}
    kept = (line for line in (before.requirements if before else ()) if name_in(line) not in gone)
    return tuple(dict.fromkeys((*kept, *change.added.lines)))


def _choose_pins(
    target: PackageTarget, before: State, change: PackageChange, allowed: Sequence[str]
) -> Iterator[Locked]:
    """Yield the packages that keep their version: also what was dropped, if another package needs it."""
    asked = set(map(before.name_in, change.added.lines))
    inside = {normalize_package(package.name) for package in target.packages} - set(allowed)
    yield from (package for package in before.locked if package.name not in asked | inside)


def _with_hashes(pins: Sequence[Locked], lines: Sequence[str]) -> Iterator[str]:
    """Yield locked packages with their hashes: if one requirement has a hash, pip wants all of them to have one."""
    named = {name_of(line) for line in lines if "--hash=" in line}
    for package in pins if named else ():
        if package.sha256 and package.name not in named:
            yield f"{package.pin} --hash=sha256:{package.sha256}"


def check_known(parent: State | None, names: Sequence[str], module: str) -> None:
    """Check that packages to drop were requested.

    Raises BadInputError with the packages that need the ones that were not.
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
        raise BadInputError(f"{name} is not among your packages for {module}", f"See: hpcmod packages {module}")


def render_state_plan(plan: StatePlan, directory: str) -> Iterator[str]:
    """Yield the lines of `--dry-run` for a set in a directory, one fact per line."""
    yield f"container: {plan.target.module}"
    yield f"image: {plan.target.sif} (sha256 {plan.target.sha256})"
    yield f"state: {directory}/{plan.file}"
    yield f"active link: {directory}/{active_link(plan.target.place.tag)}"
    yield from (f"requirement: {without_logins(line)}" for line in plan.requirements)
    yield from (f"conda requirement: {line}" for line in plan.conda.requirements)
    yield from (f"conda channel: {channel}" for channel in plan.conda.channels)
    kept = "conda package of the lock" if plan.conda.exact else "conda package kept"
    yield from (f"{kept}: {package.pin}" for package in plan.conda.packages)
    yield from (f"for pip: {without_logins(line)}" for line in plan.lines if line not in plan.requirements)
    yield from (f"option for pip: {without_credentials(word)}" for word in plan.pip.words)
    own = len(make_constraints(plan.target.packages, plan.allowed))
    yield f"constraints: {own} packages of the image"
    yield from (f"constraint: {line}" for line in plan.constraints[own:])
    yield from (f"may replace: {name}" for name in plan.allowed)
    yield from (f"read by pip: {path}" for path in plan.places)
    yield f"in the container: {' '.join(plan.argv)}"
