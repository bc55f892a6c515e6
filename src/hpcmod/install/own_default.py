"""Mark a user's own copy as the default version of its name, as the site's copy is marked.

Lmod prefers a marked default in any directory of MODULEPATH to the order of these, also where the whole name is given.
Without a mark of its own, a private copy of the site's default version could not be loaded beside it.
"""

from __future__ import annotations

from pathlib import Path

from hpcmod.fs.reading import read_text
from hpcmod.fs.tree import write_file
from hpcmod.install.installed import Installed
from hpcmod.render.modulefile import render_template
from hpcmod.render.published import MODULERC
from hpcmod.resources import module_templates

_LIMIT = 1 << 20  # bytes of a file that is looked at


def mark_default(copy: Installed) -> None:
    """Mark a copy as the default of its name, unless somebody else wrote the file that says so.

    Environment Modules takes the first directory of MODULEPATH and needs no mark: it does not read this file.
    """
    path = _file(copy)
    if not path.exists() or _is_ours(path):
        write_file(path, _render(copy.module))


def unmark_default(copy: Installed) -> None:
    """Remove the mark of a copy that is removed."""
    path = _file(copy)
    if path.is_file() and read_text(path, _LIMIT, errors="replace") == _render(copy.module):
        path.unlink(missing_ok=True)


def _file(copy: Installed) -> Path:
    return copy.modulefile.with_name(MODULERC["Lua"])


def _render(module: str) -> str:
    leads = {"leads": [(module, ["default"])], "hidden": []}
    return render_template("modulerc", "Lua", module_templates(), leads)


def _is_ours(path: Path) -> bool:
    """Return whether this module wrote a file: all but the name of the module is as it would write it."""
    lines, expected = read_text(path, _LIMIT, errors="replace").splitlines(), _render("x/y").splitlines()
    return len(lines) == len(expected) and lines[0] == expected[0]
