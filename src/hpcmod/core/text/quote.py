"""Quoting: one function per language, each returns a literal with exactly the given meaning.

All raise BadInputError if the text contains a NUL, or is not Unicode.
"""

from __future__ import annotations

import re

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.text import terminal as terminal
from hpcmod.core.values.text import terminal_line as terminal_line

_LUA_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TCL_ESCAPES = {**{char: f"\\{char}" for char in '\\"$[]{}'}, "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def sh(text: str) -> str:
    r"""Quote for a POSIX shell: one word, whatever it contains."""
    return "'" + _checked(text).replace("'", "'\\''") + "'"


def sh_word(text: str) -> str:
    """Quote for a POSIX shell only if needed, for readable output."""
    return text if re.fullmatch(r"[A-Za-z0-9_@%+=:,./-]+", text) else sh(text)


def sh_comment(text: str) -> str:
    """Make text safe for the rest of a shell comment: line ends and other control characters become `?`."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", "?", _checked(text))


def lua(text: str) -> str:
    r"""Quote for Lua 5.1 and newer: a string in double quotes."""
    return '"' + _escaped(text, _LUA_ESCAPES, "\\{:03d}") + '"'


def unquote_lua(literal: str) -> str:
    """Return the text of a literal made by `lua`, given without its quotes."""
    known = {escape[1]: char for char, escape in _LUA_ESCAPES.items()}
    return re.sub(r"\\(\d{3}|.)", lambda match: known.get(match[1]) or chr(int(match[1])), literal)


def tcl(text: str) -> str:
    r"""Quote for Tcl 8.5 and newer: a word in double quotes, which may also be used within braces.

    Notes
    -----
    Octal escapes end after three digits; in Tcl 8.5, hexadecimal ones consume all following digits.
    """
    return '"' + _escaped(text, _TCL_ESCAPES, "\\{:03o}") + '"'


def python_literal(text: str) -> str:
    r"""Quote for Python: a string on one line, of printable characters only.

    Notes
    -----
    `repr` escapes everything that is not printable: line ends, and characters that change the text direction.
    """
    return repr(str(_checked(text)))


def _escaped(text: str, escapes: dict[str, str], control: str) -> str:
    return re.sub(
        r'[\x01-\x1f\x7f\\"$\[\]{}]',
        lambda match: escapes.get(match[0]) or _control(match[0], control),
        _checked(text),
    )


def _control(char: str, form: str) -> str:
    return form.format(ord(char)) if ord(char) < 0x20 or char == "\x7f" else char


def _checked(text: str) -> str:
    if "\0" in text:
        raise BadInputError(f"a NUL character in {text[:60]!r}", "Remove it: shells and modulefiles have none.")
    try:
        text.encode()
    except UnicodeEncodeError as err:
        raise BadInputError(f"not Unicode: {text[:60]!r}", "Rename the file, or write the text in UTF-8.") from err
    return text
