"""A published modulefile in three files: what every `module avail` reads, what describes it, and what loading it does.

Without a cache Lmod compiles all modulefiles there are for each `avail`, and of ours most is the packages of the image
and what happens at load. With each of these in a file of its own, 2,000 of them take half of the time.
"""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass

from hpcmod.render.quote import lua

_BEGINNING = "\n-- Written by hpcmod."
"""Begins what is done at load, and no text from outside can hold it: in a literal there are no line ends."""

_DESCRIPTION = ("\nif is_description_wanted() then\n", "\nend -- is_description_wanted\n")
"""Stand before and behind what describes the module."""

_VISIBLE = """
-- Written by hpcmod. What loading does is in another file, for `avail` and `spider` compile all of this one each time.
if mode() == "spider" then return end
local load_module = {code}
load_module()
"""

_CODE = """-- Of the module {module}: {what}. Its modulefile runs this.
if setfenv then setfenv(1, getfenv(2)) end -- Lua 5.1: the environment of modulefiles
{code}"""


@dataclass(frozen=True)
class Deferred:
    """A modulefile in several files."""

    visible: str
    """What the module tool reads."""
    files: tuple[tuple[str, str], ...]
    """Path and text of what it runs, which must lie there before; the name of each tells what is in it."""


def defer(text: str, *, module: str, directory: str) -> Deferred:
    """Take out of a modulefile in Lua what not every `avail` needs; one that is not hpcmod's stays as it is.

    Parameters
    ----------
    directory
        Where the code is to lie, where no module tool looks for modules.
    """
    head, beginning, body = text.partition(_BEGINNING)
    if not beginning:
        return Deferred(text, ())

    def file(what: str, code: str) -> tuple[str, str]:
        whole = _CODE.format(module=module, what=what, code=code)
        return posixpath.join(directory, f"{hashlib.sha256(whole.encode()).hexdigest()[:24]}.lua"), whole

    load = file("what loading it does", beginning.lstrip() + body)
    before, begun, rest = head.partition(_DESCRIPTION[0])
    description, ended, after = rest.partition(_DESCRIPTION[1])
    if not ended:
        return Deferred(head + _VISIBLE.format(code=_load(load[0])), (load,))
    described = file("what describes it", f"{description}\n")
    visible = f"{before}{begun}    local describe = {_load(described[0])}\n    describe(){ended}{after}"
    return Deferred(visible + _VISIBLE.format(code=_load(load[0])), (described, load))


def _load(path: str) -> str:
    """Write what gives the code of a file as a function; called as such, it finds the environment of modulefiles."""
    return f'assert(loadfile({lua(path)}, "t", _ENV))'
