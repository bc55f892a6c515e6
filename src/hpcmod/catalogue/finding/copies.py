"""Decide which copy of a container to use: the user's own or the site's. All commands use this, so that they agree."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcmod.core.text.quote import sh_word
from hpcmod.machine import find_modulefile, module_name
from hpcmod.modules import Installed, find_in_trees, read_installed


class Copies(NamedTuple):
    """The installed copies of one module; at least one."""

    meant: Installed
    """The copy that `module load` takes in this shell; the first one if it finds none or there is no module tool."""
    others: tuple[Installed, ...]


def find_copies(module: str, trees: Sequence[Path], environ: Mapping[str, str]) -> Copies | None:
    """Return all copies of a module and the one in use; None if there is none.

    `module`: Its full name, NAME/VERSION.
    `trees`: Directories of modulefiles to search; the first has priority if the module tool does not decide.
    """
    copies = list(find_in_trees(trees, module))
    if not copies:
        return None
    asked = find_modulefile(module, environ) if len(copies) > 1 else None
    meant = next((copy for copy in copies if asked and copy.modulefile.samefile(asked)), copies[0])
    return Copies(meant, tuple(copy for copy in copies if os.path.realpath(copy.root) != os.path.realpath(meant.root)))


def find_loaded_by(text: str, environ: Mapping[str, str]) -> Installed | None:
    """Return the container module that `module load TEXT` loads in this shell; None if it is not one of hpcmod's."""
    modulefile = find_modulefile(text, environ)
    module = module_name(modulefile, environ) if modulefile else ""
    return read_installed(modulefile, module) if modulefile and module else None


def loading_commands(
    copy: Installed, environ: Mapping[str, str], *, fresh: bool = False
) -> tuple[tuple[str, ...], ...]:
    """Return the commands that load this copy in this shell, as words: `module use` if needed, then `module load`.

    If another copy would still win, because Lmod prefers a marked default, its directory is removed first.

    `fresh`: Whether the commands are for another shell, whose MODULEPATH is unknown.
    """
    tree = copy.modulefile.parents[copy.module.count("/")]
    load = (("module", "load", copy.module),)
    used = [os.path.realpath(directory) for directory in environ.get("MODULEPATH", "").split(":") if directory]
    is_used = os.path.realpath(tree) in used
    loaded = find_modulefile(copy.module, environ)
    if is_used and not fresh and (loaded is None or loaded.samefile(copy.modulefile)):
        return load
    use = (("module", "use", str(tree)),)
    loaded = find_modulefile(copy.module, environ, first=tree)
    if loaded is None or loaded.samefile(copy.modulefile):
        return (*use, *load)
    return (("module", "unuse", str(loaded.parents[copy.module.count("/")])), *use, *load)


def loading_lines(copy: Installed, environ: Mapping[str, str]) -> list[str]:
    """Return the commands of `loading_commands` as lines for a shell."""
    return [" ".join(map(sh_word, words)) for words in loading_commands(copy, environ)]
