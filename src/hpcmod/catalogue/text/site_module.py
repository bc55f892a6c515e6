"""Render the hpcmod module itself, and the scripts that it puts on PATH."""

from __future__ import annotations

from dataclasses import dataclass

from hpcmod.core.text.quote import sh
from hpcmod.core.values.text import check_plain
from hpcmod.modules.text.modulefile import Templates, render_template

MEMORY = "_HPCMOD_SETUP"
"""Name of the variable that says what the module has set."""

LOGIC = ("libexec/variables.lua", "libexec/variables.tcl")
"""Run scripts that set and restore variables, as container modules do."""

_IF_BASH, _IF_ZSH = '[ -z "${BASH_VERSION-}" ] || ', '[ -z "${ZSH_VERSION-}" ] || '

COMPLETION = {
    "bash": (
        "sh",
        _IF_BASH + "source SCRIPT",
        _IF_BASH + "{ complete -r hpcmod 2>/dev/null || :; unset -f _hpcmod_completion _hpcmod_completion_setup; }",
    ),
    "zsh": (
        "sh",
        _IF_ZSH + "(( ! $+functions[compdef] )) || source SCRIPT",
        _IF_ZSH + "(( ! $+functions[_hpcmod_completion] )) || { compdef -d hpcmod; unfunction _hpcmod_completion; }",
    ),
    "fish": (
        "fish",
        "source SCRIPT",
        "complete -e -c hpcmod; functions -q _hpcmod_completion; and functions -e _hpcmod_completion",
    ),
}
"""By shell: its type, and the commands that start completion with its script, and end it.

The module tool may say bash where it is zsh, as Lmod 8.3 does, or sh: the commands ask the shell.
"""


@dataclass(frozen=True)
class PathList:
    """Elements that the module adds to a list without changing the others."""

    name: str
    before: tuple[str, ...] = ()
    """Elements to prepend."""
    after: tuple[str, ...] = ()
    separator: str = ":"
    ending: bool = False
    """Whether to add an empty element, which represents the program's default, if the list was unset or empty."""
    for_another_eb: bool = False
    """Whether to add nothing if the first `eb` on PATH is that of hpcmod's environment."""


@dataclass(frozen=True)
class SiteModule:
    """Settings of the hpcmod module; all paths are absolute."""

    version: str
    bin: str
    """Directory of the scripts."""
    python: str
    """The Python for `eb`: of the same version as hpcmod's, whose libraries are compiled for it."""
    easyconfigs: tuple[str, ...]
    """Robot paths, in search order."""
    images: tuple[str, ...] = ()
    """Directories of images, searched after the easyconfigs."""
    easyblocks: str = ""
    """Pattern that matches the easyblocks' files; empty: `eb` finds them by itself."""
    own_eb: str = ""
    """Directory of the `eb` of hpcmod's environment, which finds them by itself, and fails if they are named."""
    libraries: str = ""
    """Directories of hpcmod's libraries; empty: beside hpcmod."""
    catalogues: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    """Directories for MODULEPATH."""
    site: str = ""
    """Name or file of the site profile; empty: detected."""
    man: str = ""
    """Directory of the manual pages; empty: they are not installed."""

    def __post_init__(self) -> None:
        """Check that no value can end a variable or a list element."""
        for path in (self.bin, self.python, *self.easyconfigs, *self.images, *self.catalogues, *self.modules, self.man):
            check_plain(path, "a path in the module")
        check_plain(self.site, "the site profile")

    @property
    def libexec(self) -> str:
        """Directory of LOGIC."""
        return f"{self.bin.rpartition('/')[0]}/libexec"

    @property
    def completion(self) -> list[tuple[str, str, str]]:
        """Types of shells, and the commands that start and end completion."""
        top = self.bin.rpartition("/")[0]
        scripts = {shell: sh(f"{top}/completion/hpcmod.{shell}") for shell in COMPLETION}
        return [(kind, start.replace("SCRIPT", scripts[name]), end) for name, (kind, start, end) in COMPLETION.items()]

    @property
    def lists(self) -> tuple[PathList, ...]:
        """The lists it adds to."""
        include = PathList("EASYBUILD_INCLUDE_EASYBLOCKS", after=(self.easyblocks,), separator=",", for_another_eb=True)
        return (
            PathList("EASYBUILD_ROBOT_PATHS", (*self.easyconfigs, *self.images), ending=True),
            *((include,) if self.easyblocks else ()),
            *((PathList("HPCMOD_CATALOGUE", after=self.catalogues),) if self.catalogues else ()),
            *((PathList("MANPATH", after=(self.man,), ending=True),) if self.man else ()),
        )


def render_site_module(module: SiteModule, syntax: str, templates: Templates) -> str:
    """Render the modulefile, in one of SYNTAXES; unloading restores the environment exactly."""
    given = {"EB_PYTHON": module.python, "HPCMOD_EB_PYTHON": module.python, "HPCMOD_LIBRARIES": module.libraries}
    given["HPCMOD_SITE"] = module.site
    values = {
        "help": _help(module),
        "whatis": "Description: container images as modules: hpcmod, and its easyblocks and easyconfigs for eb",
        "memory": MEMORY,
        "own_eb": module.own_eb,
        "bin": module.bin,
        "libexec": module.libexec,
        "defaults": [(name, value) for name, value in given.items() if value],
        "lists": module.lists,
        "completion": module.completion,
        "module_directories": module.modules,
    }
    return render_template("site_module", syntax, templates, values)


def _help(module: SiteModule) -> str:
    lines = [
        f"hpcmod {module.version}: container images as modules.",
        "",
        "eb NAME-VERSION.eb      install a container for yourself: eb finds hpcmod's easyblocks and easyconfigs",
        "hpcmod ls               list the containers on this machine",
        "hpcmod --help           list all commands",
    ]
    return "\n".join(lines)


def render_launcher(program: str) -> str:
    """Render a script that runs a program without putting the program's directory on PATH."""
    # unlike dash, bash passes on the function `module`, and with -p it does not read BASH_ENV
    return f'#!/bin/bash -p\n# Written by `hpcmod site setup`.\nexec {sh(program)} "$@"\n'
