"""Ask the module tool of this shell, Lmod or Environment Modules, which file `module load` would read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hpcmod.errors import LackingError
from hpcmod.process import run

_TIMEOUT = 30.0  # seconds; a file system that hangs must not hang us
_TCL_PATH = re.compile(r"^echo '(/.*)';?$", re.MULTILINE)


def has_module_tool(environ: Mapping[str, str]) -> bool:
    """Return whether this environment names a module tool."""
    return bool(environ.get("LMOD_CMD") or environ.get("MODULES_CMD"))


def find_modulefile(module: str, environ: Mapping[str, str], *, first: Path | None = None) -> Path | None:
    """Return the file that `module load MODULE` would read; None if it finds none, or if there is no module tool.

    Only the tool knows: Lmod prefers a version that is marked as the default in any directory of MODULEPATH, and
    a user may have defaults of their own.

    Parameters
    ----------
    first
        A directory to put before the others of MODULEPATH, as `module use DIRECTORY` does.
    """
    if not module or module.startswith("-"):
        return None
    if first:
        others = [place for place in environ.get("MODULEPATH", "").split(":") if place and place != str(first)]
        environ = {**environ, "MODULEPATH": ":".join([str(first), *others])}
        # Lmod keeps MODULEPATH in a table of its own, which would win
        environ = {name: value for name, value in environ.items() if not name.startswith("_ModuleTable")}
    try:
        if environ.get("LMOD_CMD"):
            said = run([environ["LMOD_CMD"], "bash", "--location", "show", module], env=environ, timeout=_TIMEOUT)
            paths = [line for line in said.stderr.splitlines() if line.startswith("/")] if said.status == 0 else []
        elif environ.get("MODULES_CMD"):
            said = run([environ["MODULES_CMD"], "bash", "path", module], env=environ, timeout=_TIMEOUT)
            paths = _TCL_PATH.findall(said.stdout)
        else:
            return None
    except LackingError:  # a tool that is gone, or hangs
        return None
    return next((Path(path) for path in paths if Path(path).is_file()), None)


def module_name(modulefile: Path, environ: Mapping[str, str]) -> str:
    """Return the name by which a module tool loads a file; empty if it is in no directory of MODULEPATH."""
    for place in environ.get("MODULEPATH", "").split(":"):
        if place and Path(place) in modulefile.parents:
            return str(modulefile.relative_to(place)).removesuffix(".lua")
    return ""
