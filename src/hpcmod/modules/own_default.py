"""Mark a user's private copy as the default version of its name, like the site's copy.

Lmod prefers a marked default in any directory of MODULEPATH over the order of directories, even for a full name.
Without a mark, a private copy of the site's default version could not be loaded.
"""

from __future__ import annotations

from pathlib import Path

from hpcmod.core.fs.reading import read_text
from hpcmod.core.fs.tree import Tree, write_file
from hpcmod.core.resources import module_templates
from hpcmod.modules.installed import Installed
from hpcmod.modules.shared_prefix import SharedPrefix
from hpcmod.modules.text.modulefile import render_default
from hpcmod.modules.values.install_record import MODULERC

_LIMIT = 1 << 20  # bytes read from a file


def mark_default(copy: Installed, shared: SharedPrefix | None = None) -> None:
    """Mark a copy as the default of its name, unless the default file was not written by hpcmod.

    Environment Modules uses the first directory of MODULEPATH and needs no mark: it does not read this file.

    `shared`: The prefix of the copy, if others may write there.
    """
    path = _file(copy)
    if path.exists() and not _is_ours(path):
        return
    if shared and path.is_relative_to(shared.prefix):
        shared.tree.write(shared.at(path), _render(copy.module))
    else:
        write_file(path, _render(copy.module))


def unmark_default(copy: Installed) -> None:
    """Remove the mark of a copy that is being removed."""
    path = _file(copy)
    if path.is_file() and read_text(path, _LIMIT, errors="replace") == _render(copy.module):
        Tree(path.parent).remove(path.name)


def _file(copy: Installed) -> Path:
    return copy.modulefile.with_name(MODULERC["Lua"])


def _render(module: str) -> str:
    return render_default(module, module_templates())


def _is_ours(path: Path) -> bool:
    """Return whether hpcmod wrote a file: its content matches except for the module's name."""
    lines, expected = read_text(path, _LIMIT, errors="replace").splitlines(), _render("x/y").splitlines()
    return len(lines) == len(expected) and lines[0] == expected[0]
