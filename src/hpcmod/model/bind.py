"""A bind path: a place of the host shown inside the container."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hpcmod.errors import BadInputError
from hpcmod.model.text import check_plain

KERNEL = "{uname_r}"
"""In a source: the release of the kernel that runs, as `uname -r` prints it."""


@dataclass(frozen=True)
class Bind:
    """One bind path, in Apptainer's terms `source[:destination[:options]]`."""

    source: str
    destination: str = ""
    """Path inside the container; empty: the same as the source."""
    options: str = ""
    required: bool = False
    """A required source that is absent is worth a warning; an optional one is left out in silence."""
    pattern: bool = False
    """Whether `*`, `?` and KERNEL in the source stand for something else; the newest that exists is taken."""
    origin: str = field(default="", compare=False)
    """Who asked for it, for people: a line of a profile, an easyconfig."""

    @classmethod
    def parse(cls, text: str, *, required: bool = False, origin: str = "") -> Bind:
        r"""Parse `source[:destination[:options]]`; `\:` and `\,` are characters of a path.

        Raises
        ------
        BadInputError
            If the source or the destination is not an absolute path, or a part holds a comma or a control character.
        """
        if re.search(r"(?<!\\),", check_plain(text, "bind path")):
            raise BadInputError(
                f"bind path {text!r} holds a comma", r"Name one path a bind; write \, for one in a path."
            )
        parts = [re.sub(r"\\([:,])", r"\1", part) for part in re.split(r"(?<!\\):", text, maxsplit=2)]
        source, destination, options = (*parts, "", "")[:3]
        if not source.startswith("/") or (destination and not destination.startswith("/")):
            raise BadInputError(
                f"bind path {text!r}: source and destination must be absolute paths",
                "Write it as /source, /source:/destination or /source:/destination:ro.",
            )
        pattern = bool(re.search(r"[*?]", source)) or KERNEL in source
        return cls(source, destination, options, required, pattern, origin)

    @property
    def place(self) -> str:
        """Path inside the container."""
        return self.destination or self.source

    @property
    def glob(self) -> str:
        """The source as a pattern of bash, in which `*` and `?` alone are special; KERNEL is still to be put in."""
        return re.sub(r"[][\\]", r"\\\g<0>", self.source)

    def stands_for(self, other: Bind, kernel: str) -> bool:
        """Return whether another bind is one that this candidate can become: same destination, matching source."""
        source = self.source.replace(KERNEL, kernel) if self.pattern else self.source
        parts = (re.escape(part) for part in re.split(r"[*?]", source))
        signs = ["[^/]*" if sign == "*" else "[^/]" for sign in re.findall(r"[*?]", source)]
        pattern = "".join(part + sign for part, sign in zip(parts, [*signs, ""])) if self.pattern else re.escape(source)
        return bool(re.fullmatch(pattern, other.source)) and other.place == (self.destination or other.source)

    def __str__(self) -> str:
        """Return the form that Apptainer reads in its bind variables, where a comma ends a bind unless escaped."""
        destination = self.destination or (self.source if self.options else "")
        paths = [re.sub("([:,])", r"\\\1", path) for path in (self.source, destination) if path]
        return ":".join([*paths, *filter(None, [self.options])])


def parse_elements(text: str, *, origin: str = "") -> tuple[Bind, ...]:
    """Parse the value of a bind variable as Apptainer does, whatever stands there; empty elements are skipped."""
    found = []
    for element in filter(None, re.split(r"(?<!\\),", text)):
        parts = [re.sub(r"\\([:,])", r"\1", part) for part in re.split(r"(?<!\\):", element, maxsplit=2)]
        source, destination, options = (*parts, "", "")[:3]
        found.append(Bind(source, destination, options, origin=origin))
    return tuple(found)


def can_be_bound(path: str) -> bool:
    """Return whether a bind variable can hold a path: it has no escape for a backslash that stands before one."""
    return not re.search(r"[\x00-\x1f\x7f]", path) and not re.search(r"\\[:,]", f"{path}:")


def version_key(path: str) -> str:
    """Make a text that sorts as releases do: 1.10 after 1.9, and numbers after words."""
    return re.sub(r"\d+", lambda found: f"~{found[0]:0>12}", path)
