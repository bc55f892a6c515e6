"""Load two modules, each in a shell of its own, and compare what they change there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmod.errors import CheckFailedError, LackingError, NotFoundError
from hpcmod.install.module_tool import with_one_tool
from hpcmod.model.environment import NOTES, PREFIXES
from hpcmod.process import run
from hpcmod.render.checkscript import NO_MODULE_TOOL, render_states

SAME, CHANGED, LOST, ADDED = "same", "changed", "lost", "added"
_ORDER = (LOST, CHANGED, ADDED, SAME)

_ROOT = "<root>"
"""What replaces the directory of an installation, which is not the same for two modules."""

_ROOTS = re.compile(r"EBROOT\w+|CONTAINERROOT")
_BINDS = re.compile(r"(?:SINGULARITY|APPTAINER)_BIND(?:PATH)?")
_OF_THE_TOOL = re.compile(
    rf"LMOD_.*|__LMOD.*|_ModuleTable.*|LOADEDMODULES.*|_LMFILES_.*|_*MODULES_.*|MODULEPATH.*|{NOTES}.*|BASH_FUNC_.*"
    r"|EBDEVEL\w+|PATH|SHLVL|_|PWD|OLDPWD"
)
"""Variables of the shell and of module tools; PATH is compared by the commands on it."""

Effect = tuple[str, str]
"""A kind (variable, container variable, bind, command, script) and a name."""

_NOT_FOUND = 127  # exit status of the script without a module tool
_TIMEOUT = 300.0  # seconds; a modulefile may start programs


@dataclass(frozen=True)
class ShellState:
    """A shell at one time."""

    variables: Mapping[str, str]
    functions: frozenset[str]
    """Names of functions and aliases."""


@dataclass(frozen=True)
class EffectDifference:
    """One effect of two modules."""

    status: str
    kind: str
    name: str
    old: str | None
    """Value with the old module; None: it has no such effect. Commands and scripts have an empty value."""
    new: str | None


def find_effects(before: ShellState, after: ShellState, programs: Callable[[str], frozenset[str]]) -> dict[Effect, str]:
    """Return the value of each effect that loading a module has.

    Parameters
    ----------
    programs
        Returns the names of the programs in a directory.
    """
    new = {name: value for name, value in after.variables.items() if before.variables.get(name) != value}
    roots = sorted({value for name, value in new.items() if _ROOTS.fullmatch(name) and value}, key=len, reverse=True)
    found = {("command", name): "" for name in after.functions - before.functions}
    for directory in _added("PATH", before, new):
        found.update({("command", name): "" for name in programs(directory)})
    found.update({("script", name): "" for name in programs(new["RUNSCRIPTS"])} if new.get("RUNSCRIPTS") else {})
    for name in sorted(new, key=lambda name: not name.startswith(PREFIXES[1])):  # the value of APPTAINERENV_ wins
        if _BINDS.fullmatch(name):
            found.update(_binds(_without_roots(new[name], roots)))
        elif name.startswith(PREFIXES):
            found["container variable", name.partition("_")[2]] = _without_roots(new[name], roots)
        elif not _OF_THE_TOOL.fullmatch(name):
            value = ":".join(_added(name, before, new)) if before.variables.get(name) else new[name]
            found["variable", name] = _without_roots(value, roots)
    return found


def _added(name: str, before: ShellState, new: Mapping[str, str]) -> list[str]:
    """Return the elements of a list of directories that are new."""
    former = before.variables.get(name, "").split(":")
    return [one for one in new.get(name, "").split(":") if one and one not in former]


def _without_roots(text: str, roots: list[str]) -> str:
    for root in roots:
        text = re.sub(rf"{re.escape(root)}(?=[/:,]|$)", _ROOT, text)
    return text


def _binds(text: str) -> Iterator[tuple[Effect, str]]:
    """Yield binds, SOURCE[:TARGET[:OPTIONS]] each, by their target."""
    for bind in filter(None, text.split(",")):
        source, _, rest = bind.partition(":")
        target, _, options = rest.partition(":")
        yield ("bind", target or source), f"{source}:{options}" if options else source


def compare_effects(
    old: Mapping[Effect, str], new: Mapping[Effect, str], *, is_same: Callable[[str, str], bool]
) -> tuple[EffectDifference, ...]:
    """Compare all effects of two modules, the lost ones first.

    Parameters
    ----------
    is_same
        Returns whether two values that differ mean the same, as two paths of one file do.
    """
    found = []
    for effect in sorted({*old, *new}):
        one, other = old.get(effect), new.get(effect)
        if one is None or other is None:
            status = ADDED if one is None else LOST
        else:
            status = SAME if one == other or is_same(one, other) else CHANGED
        found.append(EffectDifference(status, *effect, one, other))
    return tuple(sorted(found, key=lambda one: _ORDER.index(one.status)))


def verify_replacement(old: str, new: str, environ: Mapping[str, str]) -> tuple[EffectDifference, ...]:
    """Load two modules and compare them.

    Parameters
    ----------
    old, new
        Name of a module that `module load` finds, or path of a modulefile.

    Raises
    ------
    CheckFailedError
        If one of them does not load.
    LackingError
        If there is no module tool.
    NotFoundError
        If the path of a modulefile does not exist.
    """
    return compare_effects(_load(old, environ), _load(new, environ), is_same=_is_same_file)


def _load(module: str, environ: Mapping[str, str]) -> dict[Effect, str]:
    name, tree = _locate(module)
    done = run(["bash", "-c", render_states(name, modulepath=tree)], env=with_one_tool(environ), timeout=_TIMEOUT)
    if done.status == _NOT_FOUND and done.stderr.strip() == NO_MODULE_TOOL:
        raise LackingError(
            f"{NO_MODULE_TOOL}, so {module} cannot be loaded",
            "Start from a login shell, in which the site sets them up: bash -lc 'hpcmod ...'",
        )
    parts = done.stdout.split("\0\0")
    if done.status or len(parts) != 5:
        said = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise CheckFailedError(
            f"{module} does not load: {said or f'status {done.status}'}",
            "Unload other containers (module purge), and try `module load` by hand.",
        )
    return find_effects(_state(*parts[:2]), _state(*parts[2:4]), _programs)


def _locate(module: str) -> tuple[str, str]:
    """Return the name of a module and the directory of its tree; empty if it is to be searched on MODULEPATH."""
    if "/" not in module or not module.startswith(("/", "./", "../")):
        return module, ""
    path = Path(module).absolute()
    if not path.is_file():
        raise NotFoundError(f"{module}: no such file", "Give a modulefile, or the name of a module.")
    return f"{path.parent.name}/{path.name.removesuffix('.lua')}", str(path.parent.parent)


def _state(variables: str, functions: str) -> ShellState:
    entries = (entry.partition("=") for entry in variables.split("\0") if "=" in entry)
    return ShellState({name: value for name, _, value in entries}, frozenset(functions.split()))


def _programs(directory: str) -> frozenset[str]:
    """Return the names of the programs in a directory; none if it cannot be read."""
    try:
        return frozenset(entry.name for entry in os.scandir(directory) if os.access(entry.path, os.X_OK))
    except OSError:
        return frozenset()


def _is_same_file(one: str, other: str) -> bool:
    try:
        return one.startswith("/") and other.startswith("/") and Path(one).samefile(other)
    except OSError:
        return False
