"""Lock files of states: pylock.toml (PEP 751), which pip, uv and others write and read, too."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote

from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock, PylockValidationError
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from hpcmod.core.errors import BadInputError
from hpcmod.core.text.toml import render_toml
from hpcmod.core.values.documents import load_toml
from hpcmod.core.values.json_form import json_form, parse_form
from hpcmod.core.values.strict_json import JsonObject
from hpcmod.packages.values.conda import NO_CONDA, CondaPart, check_conda
from hpcmod.packages.values.requirement import check_line, is_package
from hpcmod.packages.values.state import Locked, State

_TOOL = "hpcmod"
"""Table of the lock file with what PEP 751 has no place for: `LockedState`."""

_FROM_UV = "uv export --format pylock.toml -o pylock.toml"
_CURE = (
    f"Write a pylock.toml: hpcmod packages NAME --lock, pip lock, or {_FROM_UV}; a requirements file with hashes is "
    "for -r FILE"
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OF_GROUPS = re.compile(r"\b(?:extras|dependency_groups)\b")


@dataclass(frozen=True)
class LockedState:
    """What a lock file says about the state that it is of."""

    requirements: tuple[str, ...]
    """As typed, one per package."""
    replaces: tuple[str, ...] = ()
    """Packages of the image that may be replaced."""
    conda: CondaPart = field(default=NO_CONDA)
    container: str = ""
    image: str = ""
    """sha256."""


@dataclass(frozen=True)
class Lock:
    """The content of a lock file."""

    state: LockedState
    """In a file of another tool, each locked package is required."""
    lines: tuple[str, ...]
    """The lines for pip, each with its hashes."""
    requires_python: str = ""
    """Versions of Python that it is for; empty for all."""
    environments: tuple[str, ...] = ()
    """Markers, one of which must hold; empty for all environments."""


def render_package_lock(state: State) -> str:
    """Return the lock file of a state.

    Raises BadInputError if a package has no hash, such as one from a git repository.
    """
    without = [package for package in state.locked if not (package.sha256 and package.url)]
    origin = state.origin
    if without:
        name, names = origin.module.partition("/")[0], " ".join(package.name for package in without if package.url)
        cure = f"For versions of the package index: hpcmod rebase {name}"
        if names:  # built from a directory or repository, also by `rebase`
            wheel = f"Make wheels with `pip wheel --no-deps DIRECTORY` and add those: hpcmod add {name} ./FILE.whl"
            cure = f"{wheel}; or leave it out: hpcmod drop {name} {names}"
        pins = ", ".join(package.pin for package in without)
        raise BadInputError(f"no hash is known for {pins}, so a lock file cannot guarantee the same files", cure)
    own = json_form(LockedState(state.requirements, state.allowed, state.conda, origin.module, origin.image))
    try:
        lock = Pylock(
            lock_version=Version("1.0"),
            requires_python=SpecifierSet(f"=={origin.python}.*") if origin.python else None,
            created_by=_TOOL,
            packages=[_make_package(package) for package in state.locked],
            tool={_TOOL: {key: value for key, value in own.items() if key != "conda" or state.conda.requirements}},
        )
        lock.validate()
    except (PylockValidationError, InvalidVersion) as err:
        raise BadInputError(f"state {state.number} cannot be written as pylock.toml: {err}", "") from err
    return render_toml(lock.to_dict())


def _make_package(locked: Locked) -> Package:
    is_local, name = locked.url.startswith("file://"), unquote(locked.url.rpartition("/")[2])
    url, path = ("", unquote(locked.url.removeprefix("file://"))) if is_local else (locked.url, "")
    is_wheel, hashes = name.endswith(".whl"), {"sha256": locked.sha256}
    return Package(
        name=canonicalize_name(locked.name),
        version=Version(locked.version),
        sdist=None if is_wheel else PackageSdist(name=name, url=url or None, path=path or None, hashes=hashes),
        wheels=[PackageWheel(name=name, url=url or None, path=path or None, hashes=hashes)] if is_wheel else None,
    )


def parse_package_lock(text: str, origin: str) -> Lock:
    """Parse a pylock.toml of any tool.

    Raises BadInputError if it is something else, or has a package without a sha256 or without a version.
    """
    try:
        tree = load_toml(text, origin)
    except BadInputError as err:
        raise BadInputError(f"{origin}: not a pylock.toml", _CURE) from err
    if "lock-version" not in tree:
        is_uv = "package" in tree and "requires-python" in tree
        raise BadInputError(f"{origin}: {'of uv, ' if is_uv else ''}not a pylock.toml", _FROM_UV if is_uv else _CURE)
    try:
        lock = Pylock.from_dict(tree)
    except PylockValidationError as err:
        raise BadInputError(f"{origin}: {err}", _CURE) from err
    lines = tuple(_make_line(package, origin) for package in lock.packages)
    environments = tuple(map(str, lock.environments or ()))
    own, python = JsonObject(dict(lock.tool or {}), f"{origin}: tool"), str(lock.requires_python or "")
    if _TOOL not in own.values:
        return Lock(LockedState(tuple(line.partition(" --hash=")[0] for line in lines)), lines, python, environments)
    state = parse_form(LockedState, own.object(_TOOL))
    for line in state.requirements:
        check_line(line)
    for name in state.replaces:
        if not is_package(name):
            raise BadInputError(f"{origin}: replaces: {name!r} is not the name of a package", _CURE)
    check_conda(state.conda)
    return Lock(replace(state, conda=replace(state.conda, exact=state.conda != NO_CONDA)), lines, python, environments)


def _make_line(package: Package, origin: str) -> str:
    """Return the line for pip: it chooses among the files with these hashes, on the user's own indexes."""
    known = [wheel.hashes for wheel in package.wheels or ()]
    known += [file.hashes for file in (package.sdist, package.archive) if file]
    hashes = [values.get("sha256", "") for values in known]
    marker = str(package.marker or "")
    if not hashes or not all(map(_SHA256.fullmatch, hashes)):
        raise BadInputError(f"{origin}: {package.name} has no sha256: it is not from a package index", _CURE)
    if _OF_GROUPS.search(marker):
        raise BadInputError(f"{origin}: {package.name} belongs to one of several groups or extras", _CURE)
    if package.archive:
        target = f"{package.name} @ {package.archive.url or f'file://{quote(package.archive.path or str())}'}"
    elif package.version:
        target = f"{package.name}=={package.version}"
    else:
        raise BadInputError(f"{origin}: {package.name} has no version", _CURE)
    line = check_line(f"{target} ; {marker}" if marker else target)
    return " ".join([line, *(f"--hash=sha256:{sha256}" for sha256 in hashes)])
