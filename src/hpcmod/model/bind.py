"""A bind path: a place of the host shown inside the container."""

from __future__ import annotations

from dataclasses import dataclass

from hpcmod.errors import BadInputError
from hpcmod.model.text import check_plain


@dataclass(frozen=True)
class Bind:
    """One bind path, in Apptainer's terms `source[:destination[:options]]`."""

    source: str
    destination: str = ""
    """Path inside the container; empty: the same as the source."""
    options: str = ""
    required: bool = False
    """A required source that is absent is worth a warning; an optional one is left out in silence."""

    @classmethod
    def parse(cls, text: str, *, required: bool = False) -> Bind:
        """Parse `source[:destination[:options]]`.

        Raises
        ------
        BadInputError
            If the source or the destination is not an absolute path, or a part holds a comma or a newline:
            Apptainer splits its bind variables there.
        """
        source, destination, options = (*text.split(":", 2), "", "")[:3]
        if not source.startswith("/") or (destination and not destination.startswith("/")):
            raise BadInputError(
                f"bind path {text!r}: source and destination must be absolute paths",
                "Write it as /source, /source:/destination or /source:/destination:ro.",
            )
        if "," in check_plain(text, "bind path"):
            raise BadInputError(f"bind path {text!r} holds a comma", "Name one path a bind.")
        return cls(source, destination, options, required)

    def __str__(self) -> str:
        """Give the form that Apptainer reads in its bind variables, where a comma ends a bind unless escaped."""
        destination = self.destination or (self.source if self.options else "")
        parts = (self.source, destination, self.options)
        return ":".join(part.replace(",", "\\,") for part in parts if part)
