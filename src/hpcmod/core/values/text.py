"""Check strings: control characters for the environment and the terminal, names for files. Format lists and sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpcmod.core.errors import BadInputError

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+~-]{0,199}")  # Linux allows 255; prefixes and suffixes are added


def is_file_name(text: str) -> bool:
    """Return whether a string is safe as a file name, and so valid as the name, version or alias of a container."""
    return bool(_FILE_NAME.fullmatch(text))


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, at most this many, separated by commas, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def format_size(size: int) -> str:
    """Return a number of bytes with the unit that fits, e.g. 86.2 MB; `?` if it is 0, which means unknown."""
    if not size:
        return "?"
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"


def away_from_here(code: str) -> str:
    """Return a program for `python -c` that imports nothing from the working directory, where others may write.

    For Pythons that must see the user's site-packages and PYTHONPATH; all others get -I.
    """
    return f"import sys; sys.path[:] = filter(None, sys.path)\n{code}"


def check_plain(text: str, what: str) -> str:
    r"""Return the string if it contains no control character.

    Raises BadInputError if it does.

    Notes
    -----
    Lmod 8.6 and Environment Modules 5 print a line end in a value unchanged, and the shell runs what follows it.
    """
    if _CONTROL.search(text):
        raise BadInputError(f"{what} {text!r} contains a control character", "Remove it: no line ends, no tabs.")
    return text


def terminal(text: str) -> str:
    """Make a string safe for a terminal: control characters become `?`, except line ends and tabs.

    Characters that change the text direction are replaced too: they can make words read differently.
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]", "?", text)


def terminal_line(text: str) -> str:
    """Make a string safe for one line of a terminal: line ends become `?` too."""
    return terminal(text).replace("\n", "?")


def without_relative_entries(path: str) -> str:
    """Return a PATH without empty and relative entries, because these depend on the working directory."""
    return ":".join(entry for entry in path.split(":") if entry.startswith("/")) or "/bin:/usr/bin"


def absolute(path: str | None) -> str:
    """Return a path if it is absolute, else empty: a relative one would mean another file in each directory."""
    return path if path and path.startswith("/") else ""
