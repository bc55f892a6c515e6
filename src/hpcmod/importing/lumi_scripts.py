"""The shell commands in `postinstallcmds` of LUMI's easyconfigs: which scripts they write, and what else they do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hpcmod.modules.values.install_record import RUNSCRIPTS
from hpcmod.modules.values.spec import OWN_COMMANDS

OUR_SCRIPTS = OWN_COMMANDS | {*RUNSCRIPTS}
"""Scripts that hpcmod installs in bin/ and runscripts/: those of a recipe must not overwrite them."""

_ROOT = r"%\(installdir\)s/"
_WRITES = re.compile(rf"cat\s*>\s*{_ROOT}(?P<path>\S+)\s*<<|cat\s*<<\S+\s*>\s*{_ROOT}(?P<late>\S+)")
_LINKS = re.compile(rf"ln\s+-s\w*\s+(?P<to>\S+)\s+{_ROOT}(?P<path>\S+)$")
_LINKS_IN = re.compile(rf"cd\s+{_ROOT}(?P<directory>\S+?)/?\s*(?:;|&&)\s*ln\s+-s\w*\s+(?P<to>\S+)\s+(?P<path>\S+)$")
_PREPARES = re.compile(r"(?:mkdir|chmod|touch)\s[^;&|]*$")
_MAKES_VENV = re.compile(r"\bpython\S*\s+-m\s+venv\b")
_BUILDS = re.compile(r"\b(?:singularity|apptainer)\s+build\b")
_PIP = re.compile(r"\bpip\S*\s+install\b([^;&|\n'\"]*)")
_REQUIREMENTS = re.compile(r"cat\s*>\s*\S*requirements\S*\s*<<\s*['\"]?(\w+)['\"]?\s*\n(.*?)\n\1", re.DOTALL)
_RUNS_IN_IMAGE = re.compile(r"\b(?:singularity|apptainer)\s+(?:exec|run)\b")


@dataclass
class ShellCommands:
    """What shell commands after an installation do."""

    wrapped: list[str] = field(default_factory=list)
    """Commands of the image that get a wrapper of the same name."""
    replaced: list[str] = field(default_factory=list)
    """Scripts that hpcmod installs too."""
    extra: list[str] = field(default_factory=list)
    """Scripts that hpcmod does not install."""
    kept: list[str] = field(default_factory=list)
    """Shell commands that write the extra scripts."""
    packages: list[str] = field(default_factory=list)
    """Requirements that pip installs."""
    others: list[str] = field(default_factory=list)
    """All other commands."""
    builds: str = ""
    """The command that builds an image; empty: none."""


def sort_shell_commands(commands: Iterable[str]) -> ShellCommands:
    """Sort the shell commands of an easyconfig by what they do; none is run."""
    found = ShellCommands()
    prepared = []
    for command in map(str.strip, commands):
        if _BUILDS.search(command.partition("<<")[0]):
            found.builds = found.builds or command.splitlines()[0]
        requirements = _REQUIREMENTS.search(command)
        if requirements:
            found.packages += [line for line in map(str.strip, requirements[2].splitlines()) if line and line[0] != "#"]
        elif _PIP.search(command.partition("<<")[0]):
            found.packages += _packages(command)
            found.others.append(command)
        elif _PREPARES.match(command):
            prepared.append(command)
        elif not (_MAKES_VENV.search(command) or _written(command, found) or _linked(command, found)):
            found.others.append(command)
    wanted = [path for path in found.extra if "/" in path]
    found.kept[:0] = [one for one in prepared if one.startswith("mkdir") and _concerns(one, wanted, parents=True)]
    found.kept += [one for one in prepared if one.startswith("chmod") and _concerns(one, wanted, parents=False)]
    return found


def _written(command: str, found: ShellCommands) -> bool:
    """Sort a command that writes a script; return whether it is one."""
    match = _WRITES.match(command)
    if match is None:
        return False
    path = match["path"] or match["late"]
    _sort_script(command, path, found, is_wrapper=_is_wrapper(command, path.rpartition("/")[2]))
    return True


def _linked(command: str, found: ShellCommands) -> bool:
    """Sort a command that links a name to a script; return whether it is one."""
    match = _LINKS.match(command) or _LINKS_IN.match(command)
    if match is None:
        return False
    directory = match.groupdict().get("directory")
    path = f"{directory}/{match['path']}" if directory else match["path"]
    _sort_script(command, path, found, is_wrapper=match["to"].rpartition("/")[2] in found.wrapped)
    return True


def _sort_script(command: str, path: str, found: ShellCommands, *, is_wrapper: bool) -> None:
    """Sort a command that makes a script."""
    name = path.rpartition("/")[2]
    if name in OUR_SCRIPTS:
        found.replaced.append(path)
    elif is_wrapper and path.startswith("bin/"):
        found.wrapped.append(name)
    else:
        found.extra.append(path)
        found.kept.append(command)


def _is_wrapper(script: str, name: str) -> bool:
    """Return whether a script runs the command of its own name in the image."""
    ran = re.search(rf"exec\s+\S+\s+(?:\S*basename|\S+/)?{re.escape(name)}\b", script)
    return _RUNS_IN_IMAGE.search(script) is not None and ("basename" in script or ran is not None)


def _packages(command: str) -> Iterator[str]:
    for match in _PIP.finditer(command):
        words = match[1].split()
        after_option = (word for before, word in zip(["", *words], words) if not before.startswith("-"))
        yield from (word for word in after_option if not word.startswith("-") and "/" not in word)


def _concerns(command: str, paths: Iterable[str], *, parents: bool) -> bool:
    """Return whether a command names one of the paths, or one of their directories."""
    named = {word.partition("%(installdir)s/")[2].rstrip("/") for word in command.split()}
    return any((path.rpartition("/")[0] if parents else path) in named for path in paths)
