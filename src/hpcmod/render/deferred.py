"""A published modulefile in two files: what every `module avail` reads, and what only loading the module does.

Without a cache Lmod compiles all modulefiles there are for each `avail`, and of ours most is what happens at load. With
that in a file of its own, 2,000 of them take half of the time.
"""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass

from hpcmod.render.quote import lua

_BEGINNING = "\n-- Written by hpcmod."
"""Begins what is done at load, and no text from outside can hold it: in a literal there are no line ends."""

_VISIBLE = """
-- Written by hpcmod. What loading does is in another file, for `avail` and `spider` compile all of this one each time.
if mode() == "spider" then return end
local load_module = assert(loadfile({path}, "t", _ENV))
load_module()
"""

_CODE = """-- What the module {module} does when it is loaded; its modulefile runs this.
if setfenv then setfenv(1, getfenv(2)) end -- Lua 5.1: the environment of modulefiles
"""


@dataclass(frozen=True)
class Deferred:
    """A modulefile in two files."""

    visible: str
    """What the module tool reads."""
    path: str
    """Where the code must lie before; its name tells what is in it. Empty: there is none."""
    code: str


def defer(text: str, *, module: str, directory: str) -> Deferred:
    """Take out of a modulefile in Lua what is done at load; one that is not hpcmod's stays as it is.

    Parameters
    ----------
    directory
        Where the code is to lie, where no module tool looks for modules.
    """
    head, beginning, body = text.partition(_BEGINNING)
    if not beginning:
        return Deferred(text, "", "")
    code = _CODE.format(module=module) + beginning.lstrip() + body
    path = posixpath.join(directory, f"{hashlib.sha256(code.encode()).hexdigest()[:24]}.lua")
    return Deferred(head + _VISIBLE.format(path=lua(path)), path, code)
