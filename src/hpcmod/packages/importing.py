"""Take over packages that were installed or listed elsewhere: resolve them again for the image, and build a state."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.reading import open_regular, read_file
from hpcmod.core.values.metadata import METADATA, METADATA_LIMIT, read_package
from hpcmod.images import Squashfs
from hpcmod.images.inspect.contents import MOST_LISTED
from hpcmod.packages.builder import Builder
from hpcmod.packages.building import build_state
from hpcmod.packages.rebasing import Rebase, plan_rebase
from hpcmod.packages.sets import PackageSet
from hpcmod.packages.values.plan import PackageChange, PackageTarget
from hpcmod.packages.values.requirement import VARIABLE, Requirements, name_of
from hpcmod.packages.values.sources import PipMetadata, Source, make_installed_source, parse_list
from hpcmod.packages.values.state import Locked, State

_LIMIT = 8 << 20  # bytes of a list of packages
_URL_LIMIT = 1 << 16  # bytes of direct_url.json
_SQUASHFS = b"hsqs"


def read_source(path: Path) -> Source:
    """Read what is installed in, or listed by, a path.

    Parameters
    ----------
    path
        A directory `user-software` or a squashfs of it, a virtual environment or conda environment, or a requirements
        file.

    Raises
    ------
    HpcmodError
        If there is no such file, or it is none of these.
    """
    path = path.absolute()
    if path.is_dir():
        return _make_source(str(path), read_installed_metadata(path))
    if not path.exists():
        raise NotFoundError(f"{path}: no such file or directory", "Check the path after --from.")
    with open_regular(path) as file:
        if file.read(len(_SQUASHFS)) == _SQUASHFS:
            squashfs = Squashfs(file, 0, path.stat().st_size)
            return _make_source(str(path), _find_metadata(["/venv", "/"], squashfs.listdir, squashfs.text_of))
    return parse_list(str(path), read_requirements, os.path.exists, str(Path.cwd()))


def _make_source(path: str, found: Iterator[PipMetadata]) -> Source:
    packages = {one.name: one for one in found}
    if not packages:
        raise BadInputError(
            f"{path}: no installed Python packages found",
            "Give a directory user-software, a squashfs of it, a virtual environment, or a file that lists packages.",
        )
    return make_installed_source([packages[name] for name in sorted(packages)])


def read_installed_metadata(path: Path) -> Iterator[PipMetadata]:
    """Yield the packages in a directory `user-software`, a virtual environment or a conda environment."""
    return _find_metadata([f"{path}/venv", str(path)], _names_in, _read_start)


def _find_metadata(
    tops: list[str], names_in: Callable[[str], list[str]], read: Callable[[str, int], str]
) -> Iterator[PipMetadata]:
    """Yield the packages of all virtual environments in the first directory; if it has none, those in the second."""
    environments = [f"{tops[0]}/{name}" for name in sorted(names_in(tops[0])[:MOST_LISTED])]
    for environment in [one for one in environments if names_in(f"{one}/lib")] or [tops[1].rstrip("/")]:
        for python in sorted(names_in(f"{environment}/lib")):
            site = f"{environment}/lib/{python}/site-packages"
            infos = [name for name in names_in(site) if name.endswith(METADATA)] if python.startswith("python") else []
            for info in sorted(infos)[:MOST_LISTED]:
                found = read_package(f"{site}/{info}", lambda inner: read(inner, METADATA_LIMIT))
                if found:
                    requested = "REQUESTED" in names_in(f"{site}/{info}")
                    url = read(f"{site}/{info}/direct_url.json", _URL_LIMIT)
                    yield PipMetadata(found.name, found.version, requested, url)


def _names_in(directory: str) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208 - names, not paths
    except OSError:
        return []


def _read_start(path: str, limit: int) -> str:
    try:
        with open_regular(path) as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""


def read_list(path: str) -> str:
    """Return the text of a file that lists packages; /dev/stdin may be a pipe.

    Raises
    ------
    NotFoundError
        If it does not exist.
    BadInputError
        If it is neither UTF-8 nor UTF-16, which PowerShell writes.
    """
    try:
        if path == "/dev/stdin":
            return sys.stdin.read(_LIMIT)
        data = read_file(path, _LIMIT)
        return data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8")
    except FileNotFoundError as err:
        raise NotFoundError(f"{path}: no such file", "Check the path.") from err
    except UnicodeDecodeError as err:
        raise BadInputError(f"{path}: not valid UTF-8", "Save it as UTF-8.") from err


def read_requirements(path: str) -> str:
    """Return the text of a requirements file with the values of `${VARIABLES}`, as pip has them; see `read_list`.

    Only here: a record or a lock file of somebody else may not send a user's variables to a server.
    """
    return VARIABLE.sub(lambda found: os.environ.get(found[1]) or found[0], read_list(path))


def plan_import(
    target: PackageTarget, found: PackageSet, source: Source, change: PackageChange, builder: Builder
) -> Rebase:
    """Return what taking over packages would do; nothing is changed.

    Parameters
    ----------
    change
        Options for pip, and packages to leave out.

    Raises
    ------
    HpcmodError
        If pip cannot ask the index.
    """
    asked = Requirements((), source.asked.constraints, source.asked.options)
    merged = _merge(target, found.active(target.place.tag), source, builder.now)
    return plan_rebase(target, found, merged, replace(change, added=asked), builder, keeps=(True, False))


def import_packages(
    target: PackageTarget,
    found: PackageSet,
    source: Source,
    change: PackageChange,
    builder: Builder,
    tell: Callable[[str], None],
) -> tuple[Rebase, State | None]:
    """Take packages over into a new state and make it active, unless some cannot be installed.

    Returns what becomes of each package, and the new state.

    Raises
    ------
    HpcmodError
        As `build_state`; the set is then as it was.
    """
    with found.locked(tell):
        found.check_not_edited(target.place.tag)
        rebase = plan_import(target, found, source, change, builder)
        if rebase.failures:
            return rebase, None
        before = found.active(target.place.tag)
        return rebase, build_state(rebase.plan, found, builder, settle=partial(found.settle, before))


def _merge(target: PackageTarget, active: State | None, source: Source, now: str) -> State:
    """Return the active state as if all packages of a source had been added to it, in these versions."""
    versions = dict(source.versions)
    names = {name_of(line) for line in source.asked.lines}
    merged = active or State(0, "", (), (), target.module, "", "", "", "", "")
    kept = [line for line in merged.requirements if name_of(line) not in names]
    locked = [package for package in merged.locked if package.name not in names | set(versions)]
    locked += [Locked(name, version, since=now) for name, version in versions.items()]
    return replace(
        merged,
        requirements=tuple(dict.fromkeys((*kept, *source.asked.lines))),
        locked=tuple(sorted(locked, key=lambda package: package.name)),
    )
