"""Let the `eb` of a site find hpcmod's easyblocks and easyconfigs, and leave everything else of it as it is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from hpcmod.core import resources
from hpcmod.core.errors import LackingError
from hpcmod.core.which import which
from hpcmod.machine import eb_settings
from hpcmod.modules.eb import find_eb, run_eb

INCLUDE, ROBOT_PATHS, EB_PYTHON = "EASYBUILD_INCLUDE_EASYBLOCKS", "EASYBUILD_ROBOT_PATHS", "EB_PYTHON"
LIBRARIES = "HPCMOD_LIBRARIES"
"""Variable with the directories in which the easyblocks find hpcmod's libraries, if they are not beside hpcmod."""
RESTART = "HPCMOD_EB_PYTHON"
"""Variable with the Python in which the easyblock starts an `eb` again that ignores EB_PYTHON, as LUMI's 4.9.4 does."""

_FROM_FILE = re.compile(r"^(include-easyblocks|robot-paths) +\(F\) = (.*)$", re.MULTILINE)
_LIBRARIES = ("jinja2", "requests", "zstandard")


class EbParts(NamedTuple):
    """What the `eb` of a site needs of hpcmod."""

    easyblocks: str
    """Pattern of the easyblocks' files, for EasyBuild's --include-easyblocks."""
    libraries: str
    """Directories of hpcmod's libraries, separated by colons; empty if they are where hpcmod is."""
    python: str
    """The Python without the packages of hpcmod's virtual environment, whose EasyBuild would mix with eb's."""


def eb_environment(
    environ: Mapping[str, str], *, again: bool = False, tell: Callable[[str], None] = lambda line: None
) -> dict[str, str]:
    """Return the variables with which `eb` finds hpcmod's easyblocks and easyconfigs and this shell's module tool.

    One that is empty must not be set: EasyBuild takes it for a pattern that matches no file.

    The `eb` that was installed with hpcmod only needs its Python. Any other is asked whether it can use the easyblock,
    with hpcmod's Python if not with its own.

    `again`: Whether to ask it also if the environment already has these variables.
    `tell`: Gets a line if `eb` must run with another Python.

    Raises LackingError if `eb` is missing or cannot use the easyblock.
    """
    ours = is_ours(find_eb(environ), environ)
    robot, include = environ.get(ROBOT_PATHS, ""), environ.get(INCLUDE, "")
    if not ours and not (robot and include):
        # the variables would hide the values of EasyBuild's configuration files
        values = dict(_FROM_FILE.findall(run_eb(["--show-config"], environ).stdout))
        robot = robot or values.get("robot-paths", "").replace(", ", ":")
        include = include or values.get("include-easyblocks", "").replace(", ", ",")
    easyconfigs = str(resources.easyconfigs_directory())
    robot = robot if easyconfigs in robot.split(":") else f"{easyconfigs}:{robot}"
    settings = {ROBOT_PATHS: robot, **eb_settings(environ)}
    parts = find_parts()
    if ours:  # fails with easyblocks that it finds by itself; the module of a site without --eb names them
        others = ",".join(part for part in include.split(",") if part != parts.easyblocks)
        return {**settings, EB_PYTHON: sys.executable, **({INCLUDE: others} if include else {})}
    complete = parts.easyblocks in include.split(",")
    settings[INCLUDE] = include if complete else ",".join(filter(None, [include, parts.easyblocks]))
    settings |= {LIBRARIES: parts.libraries} if parts.libraries else {}
    return settings if complete and not again else {**settings, **_python(environ, settings, tell)}


def is_ours(eb: str, environ: Mapping[str, str]) -> bool:
    """Return whether `eb` was installed with hpcmod, or runs with its Python, and so finds the easyblocks by itself."""
    beside = {Path(sys.executable).parent, Path(sys.argv[0]).resolve().parent}
    return Path(eb).resolve().parent in beside or Path(environ.get(EB_PYTHON, "")).parent == Path(sys.executable).parent


def find_parts(*, ours: bool = False) -> EbParts:
    """Return what an `eb` needs of this hpcmod: only its Python, if it was installed with hpcmod."""
    if ours:
        return EbParts("", "", sys.executable)
    origins = [spec.origin for spec in map(find_spec, _LIBRARIES) if spec and spec.origin]
    places = dict.fromkeys(Path(origin).parents[1] for origin in origins)
    others = [str(place) for place in places if place != resources.import_directory()]
    return EbParts(
        f"{resources.easyblocks_directory()}/container*.py",
        ":".join(others),
        str(getattr(sys, "_base_executable", sys.executable)),
    )


def why_no_easyblock(environ: Mapping[str, str]) -> str:
    """Ask `eb` for the parameters of the easyblock; return why it cannot use it, empty if it can.

    One that is not on PATH is asked as `hpcmod install` runs it.
    """
    settings = {} if which("eb", environ) else eb_environment(environ)
    complete = {name: value for name, value in {**environ, **settings}.items() if value or name not in settings}
    done = run_eb(["--easyblock=ContainerModule", "--avail-easyconfig-params"], complete)
    if done.status == 0:
        return ""
    said = f"{done.stdout}\n{done.stderr}"
    if "_NamespacePath" in said:
        return f"{INCLUDE} is set, and this eb was installed without EasyBuild's easyblocks, so it fails"
    reason = re.search(r"hpcmod does not run with .*?(?=[\"']?$)", said, re.MULTILINE)
    return reason[0] if reason else (said.strip().splitlines() or [f"exit status {done.status}"])[-1]


def _python(environ: Mapping[str, str], settings: Mapping[str, str], tell: Callable[[str], None]) -> dict[str, str]:
    """Return the Python for `eb`, if its own cannot run hpcmod."""
    reason = why_no_easyblock({**environ, **settings})
    if not reason:
        return {}
    base = find_parts().python
    ways = ({EB_PYTHON: base}, {EB_PYTHON: base, RESTART: base})
    works = next((way for way in ways if not why_no_easyblock({**environ, **settings, **way})), None)
    if works is None:
        raise LackingError(
            f"{find_eb(environ)} cannot use hpcmod's easyblock: {reason}",
            "Install hpcmod with a Python that this EasyBuild runs with, or load another EasyBuild.",
        )
    tell(f"{reason}. EB_PYTHON={base} lets this eb run with that Python")
    return works
