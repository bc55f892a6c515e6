"""Split a modulefile so that hpcmod's parts can be rendered again while EasyBuild's stay unchanged."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError

_BEGINNING = {"Lua": "-- Written by hpcmod.", "Tcl": "# Written by hpcmod."}
_END = {"Lua": "\n-- Built with EasyBuild", "Tcl": "\n# Built with EasyBuild"}
_HEAD = {"Lua": "", "Tcl": "#%Module\n"}
_DESCRIPTION = {
    "Lua": re.compile(r'\nconflict\("[^\n]*"\)\n\n?'),
    "Tcl": re.compile(r'\nconflict "[^\n]*"\n\n?'),
}
"""The last line of hpcmod's description; no outside text can contain it, because literals have no line ends."""
_VARIABLE = re.compile(r'^(?:set container\(mark\)| *mark =) "([A-Z0-9_]+)"', re.MULTILINE)


@dataclass(frozen=True)
class ExistingModule:
    """A modulefile that `eb` wrote with hpcmod's easyblock."""

    head: str
    """The first line, the same for every modulefile of the syntax."""
    between: str
    """EasyBuild's text after hpcmod's description: EBROOT, PATH, and additions from hooks and easyconfigs."""
    tail: str
    """EasyBuild's text at the end."""
    variable: str
    """Suffix of the module's variables, e.g. PYTORCH of SIFPYTORCH."""

    def with_parts(self, description: str, body: str) -> str:
        """Return the modulefile with another description and body."""
        return f"{self.head}{description}{self.between}{body}{self.tail}"


def parse_module(text: str, syntax: str, where: str) -> ExistingModule:
    """Parse a modulefile into its parts.

    `syntax`: One of `hpcmod.modules.text.modulefile.SYNTAXES`.
    `where`: File name for messages.

    Raises BadInputError if hpcmod's easyblock did not write it.
    """
    described = _DESCRIPTION[syntax].search(text)
    beginning = text.find(_BEGINNING[syntax], described.end()) if described else -1
    variable = _VARIABLE.search(text, max(beginning, 0))
    if described is None or beginning < 0 or variable is None:
        raise BadInputError(f"{where} was not created by hpcmod's easyblock", "Publish the container again.")
    end = text.rfind(_END[syntax])
    tail = text[end + 1 :] if end > beginning else ""
    return ExistingModule(_HEAD[syntax], text[described.end() : beginning], tail, variable[1])
