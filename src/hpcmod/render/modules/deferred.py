"""Split a published modulefile into three: the part read by every `module avail`, its description, its load code.

Without a cache, Lmod compiles every modulefile for each `avail`, and most of hpcmod's modulefiles is the package list
and the load code. With these in separate files, `avail` over 2,000 modules takes half the time.
"""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass

from hpcmod.render.quote import lua

_BEGINNING = "\n-- Written by hpcmod."
"""Start of the load code, which no outside text can contain: literals have no line ends."""

_DESCRIPTION = ("\nif is_description_wanted() then\n", "\nend -- is_description_wanted\n")
"""Text in front of and after the module's description."""

_VISIBLE = """
-- Written by hpcmod. The load code is in a separate file, because `avail` and `spider` compile this one every time.
if mode() == "spider" then return end
local load_module = {code}
load_module()
"""

_CODE = """-- {what} of module {module}; its modulefile runs this file.
if setfenv then setfenv(1, getfenv(2)) end -- Lua 5.1: the environment of modulefiles
{code}"""


@dataclass(frozen=True)
class Deferred:
    """A modulefile split into several files."""

    visible: str
    """The part that the module tool reads."""
    files: tuple[tuple[str, str], ...]
    """Path and text of the files it loads, which must exist first; each file's name is derived from its content."""


def defer(text: str, *, module: str, directory: str) -> Deferred:
    """Move the parts of a Lua modulefile that `avail` does not need to other files; leave foreign files unchanged.

    Parameters
    ----------
    directory
        Directory for the code, which no module tool searches.
    """
    head, beginning, body = text.partition(_BEGINNING)
    if not beginning:
        return Deferred(text, ())

    def file(what: str, code: str) -> tuple[str, str]:
        whole = _CODE.format(module=module, what=what, code=code)
        return posixpath.join(directory, f"{hashlib.sha256(whole.encode()).hexdigest()[:24]}.lua"), whole

    load = file("Load code", beginning.lstrip() + body)
    before, begun, rest = head.partition(_DESCRIPTION[0])
    description, ended, after = rest.partition(_DESCRIPTION[1])
    if not ended:
        return Deferred(head + _VISIBLE.format(code=_load(load[0])), (load,))
    described = file("Description", f"{description}\n")
    visible = f"{before}{begun}    local describe = {_load(described[0])}\n    describe(){ended}{after}"
    return Deferred(visible + _VISIBLE.format(code=_load(load[0])), (described, load))


def _load(path: str) -> str:
    """Return Lua code that loads a file as a function; when called, it uses the environment of modulefiles."""
    return f'assert(loadfile({lua(path)}, "t", _ENV))'
