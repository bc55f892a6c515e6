"""Take over packages that are listed elsewhere: resolve them again for the image, and build a state."""

from __future__ import annotations

import codecs
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.reading import read_file
from hpcmod.packages.builder import Builder
from hpcmod.packages.building import build_state
from hpcmod.packages.rebasing import Rebase, plan_rebase
from hpcmod.packages.sets import PackageSet
from hpcmod.packages.values.plan import PackageChange, PackageTarget
from hpcmod.packages.values.requirement import VARIABLE, Requirements, name_of
from hpcmod.packages.values.sources import Source, parse_list
from hpcmod.packages.values.state import Locked, State, StateOrigin

_LIMIT = 8 << 20  # bytes of a list of packages


def read_source(path: Path) -> Source:
    """Read a requirements file, such as `pip freeze` prints, with the files that it includes.

    Raises HpcmodError if there is no such file, or it is something else.
    """
    if path.is_dir():
        program = f"{path}/bin/python" if (path / "bin/python").exists() else "python"
        cure = f"List its packages: {program} -m pip freeze --local > list.txt; then --from list.txt"
        raise BadInputError(f"--from {path}: is a directory, expected a file that lists packages", cure)
    source = parse_list(str(path.absolute()), read_requirements, os.path.exists, str(Path.cwd()))
    if not source.asked.lines:
        raise BadInputError(f"--from {path}: names no package that can be taken over", "Check the list.")
    return source


def read_list(path: str) -> str:
    """Return the text of a file that lists packages; /dev/stdin may be a pipe.

    Raises NotFoundError if it does not exist; BadInputError if it is neither UTF-8 nor UTF-16, which PowerShell writes.
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
    target: PackageTarget, own_set: PackageSet, source: Source, change: PackageChange, builder: Builder
) -> Rebase:
    """Return what taking over packages would do; nothing is changed.

    `change`: Options for pip, and packages to leave out.

    Raises HpcmodError if pip cannot ask the index.
    """
    asked = Requirements((), source.asked.constraints, source.asked.options)
    merged = _merge(target, own_set.active(target.place.tag), source, builder.now)
    return plan_rebase(target, own_set, merged, replace(change, added=asked), builder, keeps=(True, False))


def import_packages(
    target: PackageTarget, own_set: PackageSet, source: Source, change: PackageChange, builder: Builder
) -> tuple[Rebase, State | None]:
    """Take packages over into a new state and make it active, unless some cannot be installed.

    Returns what becomes of each package, and the new state.

    Raises HpcmodError as `build_state`; the set is then as it was.
    """
    with own_set.locked(builder.tell):
        own_set.check_not_edited(target.place.tag)
        rebase = plan_import(target, own_set, source, change, builder)
        if rebase.failures:
            return rebase, None
        before = own_set.active(target.place.tag)
        return rebase, build_state(rebase.plan, own_set, builder, settle=partial(own_set.settle, before))


def _merge(target: PackageTarget, active: State | None, source: Source, now: str) -> State:
    """Return the active state as if all packages of a source had been added to it, in these versions."""
    versions = dict(source.versions)
    names = {name_of(line) for line in source.asked.lines}
    merged = active or State(0, "", (), (), StateOrigin(target.module, "", "", "", "", ""))
    kept = [line for line in merged.requirements if name_of(line) not in names]
    locked = [package for package in merged.locked if package.name not in names | set(versions)]
    locked += [Locked(name, version, since=now) for name, version in versions.items()]
    return replace(
        merged,
        requirements=tuple(dict.fromkeys((*kept, *source.asked.lines))),
        locked=tuple(sorted(locked, key=lambda package: package.name)),
    )
