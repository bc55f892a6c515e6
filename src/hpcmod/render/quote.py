"""Quoting: one function per language, each text -> a literal that means exactly that text."""

from __future__ import annotations

import html as _html
import re

from hpcmod.errors import BadInputError

_LUA_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TCL_ESCAPES = {**{char: f"\\{char}" for char in '\\"$[]{}'}, "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def sh(text: str) -> str:
    r"""Quote for a POSIX shell: one word, whatever it holds.

    Raises
    ------
    BadInputError
        If the text holds a NUL, or is not Unicode.
    """
    return "'" + _checked(text).replace("'", "'\\''") + "'"


def sh_word(text: str) -> str:
    """Quote for a POSIX shell where that is needed, for text that people are to read."""
    return text if re.fullmatch(r"[A-Za-z0-9_@%+=:,./-]+", text) else sh(text)


def sh_comment(text: str) -> str:
    """Make text fit for the rest of a comment line of a shell: line ends and other control characters become `?`."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", "?", _checked(text))


def terminal(text: str) -> str:
    """Make text fit for a terminal: control characters become `?`, but for line ends and tabs."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "?", text)


def lua(text: str) -> str:
    r"""Quote for Lua 5.1 and newer: a string in double quotes.

    Raises
    ------
    BadInputError
        If the text holds a NUL, or is not Unicode.
    """
    return '"' + _escaped(text, _LUA_ESCAPES, "\\{:03d}") + '"'


def tcl(text: str) -> str:
    r"""Quote for Tcl 8.5 and newer: a word in double quotes, which may stand within braces too.

    Raises
    ------
    BadInputError
        If the text holds a NUL, or is not Unicode.

    Notes
    -----
    Octal escapes end after three digits; hexadecimal ones in Tcl 8.5 take all that follow.
    """
    return '"' + _escaped(text, _TCL_ESCAPES, "\\{:03o}") + '"'


def html(text: str) -> str:
    """Quote for HTML: content of an element, or of an attribute in quotes.

    Raises
    ------
    BadInputError
        If the text holds a NUL, or is not Unicode.

    Notes
    -----
    A carriage return as it is would be read as a line feed.
    """
    return _html.escape(_checked(text)).replace("\r", "&#13;")


def _escaped(text: str, escapes: dict[str, str], control: str) -> str:
    return re.sub(
        r'[\x01-\x1f\x7f\\"$\[\]{}]',
        lambda found: escapes.get(found[0]) or _control(found[0], control),
        _checked(text),
    )


def _control(char: str, form: str) -> str:
    return form.format(ord(char)) if ord(char) < 0x20 or char == "\x7f" else char


def _checked(text: str) -> str:
    if "\0" in text:
        raise BadInputError(f"a NUL character in {text[:60]!r}", "Take it out: no shell or modulefile can hold one.")
    try:
        text.encode()
    except UnicodeEncodeError as err:
        raise BadInputError(f"not Unicode: {text[:60]!r}", "Rename what this names, or write it in UTF-8.") from err
    return text
