"""Replace one directory by another in generated text (Lua, Tcl, bash, JSON) without parsing it."""

from __future__ import annotations

import re

from hpcmod.core.errors import BadInputError

_PLAIN = re.compile(r"[A-Za-z0-9/._+@-]+")
"""Paths that are written alike in Lua, Tcl, bash and JSON, quoted or not."""

_PART = r"[A-Za-z0-9._+@-]"  # path characters: an adjacent one means that the match is part of a longer path


def relocate(text: str, old: str, new: str) -> str:
    """Return the text with every path at or below one directory moved below another.

    Raises BadInputError if either directory contains characters that these languages quote differently.
    """
    if old == new:
        return text
    for place in (old, new):
        if not _PLAIN.fullmatch(place):
            raise BadInputError(
                f"modules and scripts cannot be moved from {old} to {new}: both paths may contain only "
                f"letters, digits and ./_+@-",
                "Choose such a path, or publish the containers again in the new directory.",
            )
    begins = rf"(?:(?<!{_PART})|(?<=\\n))"  # `\n` is a line end in a literal
    return re.sub(rf"{begins}{re.escape(old)}(?!{_PART})", lambda _: new, text)
