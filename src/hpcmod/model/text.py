"""Text that goes into an environment: no control characters."""

from __future__ import annotations

import re

from hpcmod.errors import BadInputError

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_plain(text: str, what: str) -> str:
    r"""Check that a text holds no control character, and give it back.

    Raises
    ------
    BadInputError
        If it does.

    Notes
    -----
    Lmod 8.6 and Environment Modules 5 print a value with a line end as it is, and the shell runs what follows it.
    """
    if _CONTROL.search(text):
        raise BadInputError(f"{what} {text!r} holds a control character", "Take it out: no line ends, no tabs.")
    return text
