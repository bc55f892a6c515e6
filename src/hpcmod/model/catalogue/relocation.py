"""Move the paths in texts that were rendered for one directory to another, without knowing their language."""

from __future__ import annotations

import re

from hpcmod.errors import BadInputError

_PLAIN = re.compile(r"[A-Za-z0-9/._+@-]+")
"""Paths that look the same in Lua, Tcl, bash and JSON, however they are quoted."""

_PART = r"[A-Za-z0-9._+@-]"  # of a path: next to it a longer path begins or goes on


def relocate(text: str, old: str, new: str) -> str:
    """Return a text in which every path at or below one directory is below another.

    Raises
    ------
    BadInputError
        If one of the directories has a name that the languages write in different ways.
    """
    if old == new:
        return text
    for place in (old, new):
        if not _PLAIN.fullmatch(place):
            raise BadInputError(
                f"modules and scripts cannot be moved from {old} to {new}: only letters, digits and ./_+@- "
                f"may be in both paths",
                "Choose such a path; or publish the containers again in the new place.",
            )
    begins = rf"(?:(?<!{_PART})|(?<=\\n))"  # `\n` is a line end in a literal
    return re.sub(rf"{begins}{re.escape(old)}(?!{_PART})", lambda _: new, text)
