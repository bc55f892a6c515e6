"""Check this machine for problems that would break an installation or its use, each with its cure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from hpcmod.core.errors import HpcmodError, LackingError
from hpcmod.core.values.finding import FAIL, OK, WARN, Finding
from hpcmod.core.which import which
from hpcmod.machine import COMMANDS, EB_SYNTAX, EB_TOOL, LMOD, find_module_tool, find_runtime, load_site, read_version
from hpcmod.modules import find_eb, run_eb, why_no_easyblock


def check_machine(environ: Mapping[str, str], easyconfigs: str) -> Iterator[Finding]:
    """Check everything, in the order in which an installation needs it.

    `environ`: The user's environment.
    `easyconfigs`: Directory of hpcmod's easyconfigs, which must be on EasyBuild's robot path.
    """
    yield from _check_site(environ)
    yield _check_runtime(environ)
    yield _check_module_tool(environ)
    yield from _check_eb(environ)
    yield from _check_robot_paths(environ, easyconfigs)
    yield from _check_loaded(environ)
    yield from _check_bind_pairs(environ)


def _check_site(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Report the site profile, how it stripes images on Lustre, and a missing tool for that."""
    try:
        site = load_site(None, environ)
    except HpcmodError as err:
        yield Finding(FAIL, "site profile", err.message, err.cure)
        return
    yield Finding(OK, "site profile", site.name)
    striping = site.images.striping
    if striping and which("lfs", environ):
        yield Finding(OK, "striping", f"lfs setstripe {striping}, for images on Lustre")
    elif striping:
        found = f"the site profile has images.striping = {striping!r}, but lfs is not on PATH"
        yield Finding(WARN, "striping", found, "Install images where lfs is on PATH, e.g. on a login node.")


def _check_runtime(environ: Mapping[str, str]) -> Finding:
    runtime = find_runtime(environ)
    if runtime is None:
        cure = "Install Apptainer, or add it to PATH."
        return Finding(FAIL, "runtime", "neither singularity nor apptainer on PATH", cure)
    return Finding(OK, "runtime", f"{runtime}, {read_version(environ)}")


def _check_module_tool(environ: Mapping[str, str]) -> Finding:
    tool = find_module_tool(environ)
    if tool:
        return Finding(OK, "module tool", f"{tool}, {environ[COMMANDS[tool]]}")
    cure = "Start a login shell, or source the initialisation file of Lmod or Environment Modules."
    return Finding(FAIL, "module tool", "neither LMOD_CMD nor MODULES_CMD is set", cure)


def _check_tool_of_eb(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Compare the module tool that `eb` is configured for with that of this shell."""
    tool = find_module_tool(environ)
    # hpcmod's additions are excluded: a plain eb is what counts
    shown = run_eb(["--show-config"], environ) if tool else None
    if not shown or shown.status:  # why it fails is reported for the easyblock
        return
    configured = dict(re.findall(r"^(modules-tool|module-syntax) +\(\w\) = (\S+)", shown.stdout, re.MULTILINE))
    used, syntax = configured.get("modules-tool", LMOD), configured.get("module-syntax", "Lua")
    right = used == tool and (tool == LMOD or syntax == "Tcl")
    if right:
        yield Finding(OK, "module tool of eb", f"{used}, {syntax}")
    elif environ.get(EB_TOOL) or environ.get(EB_SYNTAX):
        cure = f"unset {EB_TOOL} {EB_SYNTAX}"
        yield Finding(FAIL, "module tool of eb", f"{used}, {syntax}; this shell has {tool}", cure)
    else:
        found = f"{used}, {syntax}; this shell has {tool}. `hpcmod install` and `publish` pass the right ones to eb"
        cure = 'For a plain eb: eval "$(hpcmod site env)", or module load hpcmod'
        yield Finding(WARN, "module tool of eb", found, cure)


def _check_eb(environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        eb = find_eb(environ)
    except LackingError as err:
        yield Finding(FAIL, "eb", err.message, err.cure)
        return
    on_path = which("eb", environ)
    yield Finding(OK, "eb", eb if on_path else f"{eb}, which `hpcmod install` uses; it is not on PATH")
    yield from _check_tool_of_eb(environ)
    why = why_no_easyblock(environ)
    ours = 'eval "$(hpcmod site env)"'
    cure = f"{ours}, or for the eb of your site: deactivate" if "VIRTUAL_ENV" in environ else ours
    yield Finding(FAIL, "easyblock", why, cure) if why else Finding(OK, "easyblock", f"{eb} knows ContainerModule")


def _check_robot_paths(environ: Mapping[str, str], easyconfigs: str) -> Iterator[Finding]:
    """Report a robot path without the default ones, which an empty element represents."""
    paths = environ.get("EASYBUILD_ROBOT_PATHS")
    if paths and "" not in paths.split(":") and easyconfigs not in paths.split(":"):
        cure = f"export EASYBUILD_ROBOT_PATHS={easyconfigs}:{paths}"
        yield Finding(WARN, "robot paths", f"EASYBUILD_ROBOT_PATHS={paths} hides our easyconfigs", cure)


def _check_loaded(environ: Mapping[str, str]) -> Iterator[Finding]:
    root = environ.get("CONTAINERROOT")
    if root:
        name = environ.get("_HPCMOD_CONTAINER", "").rpartition(" ")[2] or Path(root).parent.name
        found = f"{name} is loaded from {root}: eb does not install a module again while it is loaded"
        yield Finding(WARN, "loaded module", found, f"module unload {name}")


def _check_bind_pairs(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Report a pair of variables that differ: Apptainer then ignores the SINGULARITY_ one completely."""
    for name in ("BIND", "BINDPATH"):
        legacy, current = environ.get(f"SINGULARITY_{name}"), environ.get(f"APPTAINER_{name}")
        if legacy and current is not None and legacy != current:
            found = f"SINGULARITY_{name} and APPTAINER_{name} differ, so Apptainer ignores the first one"
            cure = f'export SINGULARITY_{name}="$APPTAINER_{name}", or the other way round.'
            yield Finding(WARN, "binds", found, cure)
