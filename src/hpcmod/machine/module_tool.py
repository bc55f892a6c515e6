"""Find this shell's module tool, Lmod or Environment Modules, and the file that `module load` would read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hpcmod.core.errors import LackingError

_TIMEOUT = 30.0  # seconds; hpcmod must not hang with a file system
_TCL_PATH = re.compile(r"^echo '(/.*)';?$", re.MULTILINE)

LMOD, ENVIRONMENT_MODULES = "Lmod", "EnvironmentModules"
"""The module tools, by their names in EasyBuild's option `modules-tool`."""
COMMANDS = {LMOD: "LMOD_CMD", ENVIRONMENT_MODULES: "MODULES_CMD"}
"""The variable in which each tool stores the path of its program."""
EB_TOOL, EB_SYNTAX = "EASYBUILD_MODULES_TOOL", "EASYBUILD_MODULE_SYNTAX"
"""EasyBuild's settings for the module tool and the syntax of modulefiles."""


def find_module_tool(environ: Mapping[str, str]) -> str:
    """Return the module tool of this shell, LMOD or ENVIRONMENT_MODULES; empty if there is none.

    A shell that switched from one tool to the other has the variables of both. The exported function `module`, else
    MODULESHOME, then belongs to the tool in use. Environment Modules keeps the MODULESHOME of Lmod, and its module of
    hpcmod sets EASYBUILD_MODULES_TOOL.
    """
    named = [tool for tool, variable in COMMANDS.items() if environ.get(variable)]
    if len(named) < 2:
        return "".join(named)
    function = environ.get("BASH_FUNC_module%%", "")
    if "_module_raw" in function or "modulecmd" in function:
        return ENVIRONMENT_MODULES
    home = environ.get("MODULESHOME")
    at_home = not home or Path(home) in Path(environ["LMOD_CMD"]).parents
    is_lmod = function or (at_home and environ.get(EB_TOOL) != ENVIRONMENT_MODULES)
    return LMOD if is_lmod else ENVIRONMENT_MODULES


def with_one_tool(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the `module` command of a tool that this shell used earlier."""
    tool = find_module_tool(environ)
    former = {variable for name, variable in COMMANDS.items() if name != tool}
    return {name: value for name, value in environ.items() if name not in former}


def eb_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make `eb` use this shell's module tool; empty if its defaults are right.

    EasyBuild's defaults are Lmod and Lua. Settings made by the user are kept.
    """
    tool = environ.get(EB_TOOL) or find_module_tool(environ)
    if tool in ("", LMOD):
        return {}
    return {EB_TOOL: tool, EB_SYNTAX: environ.get(EB_SYNTAX) or "Tcl"}


def find_init(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the file that defines the `module` command in bash, and the program behind that command.

    Either is empty if not found; the program is returned only for Environment Modules.
    """
    lmod = environ.get("LMOD_CMD", "")
    homes = [environ.get("LMOD_PKG", ""), str(Path(lmod).parents[1])] if lmod else [environ.get("MODULESHOME", "")]
    files = [Path(home, "init", "bash") for home in homes if home]
    if environ.get("BASH_ENV", "").endswith("/init/bash"):  # set for scripts by both tools
        files.append(Path(environ["BASH_ENV"]))
    init = next((str(path) for path in files if path.is_file()), "")
    return init, "" if lmod else environ.get("MODULES_CMD", "")


def find_modulefile(module: str, environ: Mapping[str, str], *, first: Path | None = None) -> Path | None:
    """Return the file that `module load MODULE` would read; None if there is none, or no module tool.

    Only the tool knows: Lmod prefers a version marked as default in any directory of MODULEPATH, and users may have
    their own defaults.

    `first`: Directory to prepend to MODULEPATH, as `module use DIRECTORY` does.
    """
    if not module or module.startswith("-"):
        return None
    if first:
        others = [place for place in environ.get("MODULEPATH", "").split(":") if place and place != str(first)]
        environ = {**environ, "MODULEPATH": ":".join([str(first), *others])}
        # Lmod keeps MODULEPATH in its own table, which would take precedence
        environ = {name: value for name, value in environ.items() if not name.startswith("_ModuleTable")}
    tool = find_module_tool(environ)
    if not tool:
        return None
    from hpcmod.core.process import run

    try:
        if tool == LMOD:
            said = run([environ["LMOD_CMD"], "bash", "--location", "show", module], env=environ, timeout=_TIMEOUT)
            paths = [line for line in said.stderr.splitlines() if line.startswith("/")] if said.status == 0 else []
        else:
            said = run([environ["MODULES_CMD"], "bash", "path", module], env=environ, timeout=_TIMEOUT)
            paths = _TCL_PATH.findall(said.stdout)
    except LackingError:  # the tool is missing, or hangs
        return None
    return next((Path(path) for path in paths if Path(path).is_file()), None)


def module_name(modulefile: Path, environ: Mapping[str, str]) -> str:
    """Return the name by which a module tool loads a file; empty if the file is not on MODULEPATH."""
    for place in environ.get("MODULEPATH", "").split(":"):
        if place and Path(place) in modulefile.parents:
            return str(modulefile.relative_to(place)).removesuffix(".lua")
    return ""
