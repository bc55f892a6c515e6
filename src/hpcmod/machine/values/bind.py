"""Bind paths: host paths made visible inside the container."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.text import check_plain

KERNEL = "{uname_r}"
"""Placeholder in a source for the running kernel's release, as printed by `uname -r`."""

ON_HOST = ".on-host"
"""Name of the link in a captured directory to the original library on the host.

On a node with another release of that library the link is broken, so modules and run scripts use another directory.
"""


@dataclass(frozen=True)
class Bind:
    """One bind path in Apptainer's syntax, `source[:destination[:options]]`."""

    source: str
    destination: str = ""
    """Path inside the container; empty means the same as the source."""
    options: str = ""
    required: bool = False
    """Warn if a required source is missing; skip a missing optional source silently."""
    pattern: bool = False
    """Whether `*`, `?` and KERNEL in the source are expanded; the newest existing match is used."""
    origin: str = field(default="", compare=False)
    """Where the bind was requested, for messages: a line of a profile, or an easyconfig."""
    why: str = field(default="", compare=False)
    """What it is for, in one line; empty: not said."""

    @classmethod
    def parse(cls, text: str, *, required: bool = False, origin: str = "") -> Bind:
        r"""Parse `source[:destination[:options]]`; write `\:` and `\,` for a literal colon or comma in a path.

        Raises BadInputError if the source or the destination is not an absolute path, or a part contains a comma or a
        control character.
        """
        if re.search(r"(?<!\\),", check_plain(text, "bind path")):
            raise BadInputError(
                f"bind path {text!r} contains a comma", r"Write one path per bind; write \, for a comma in a path."
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
        """Return the source as a bash glob in which only `*` and `?` are special; KERNEL is not yet substituted."""
        return re.sub(r"[][\\]", r"\\\g<0>", self.source)

    def stands_for(self, other: Bind, kernel: str) -> bool:
        """Return whether this candidate can expand to another bind: same destination, matching source."""
        source = self.source.replace(KERNEL, kernel) if self.pattern else self.source
        parts = (re.escape(part) for part in re.split(r"[*?]", source))
        signs = ["[^/]*" if sign == "*" else "[^/]" for sign in re.findall(r"[*?]", source)]
        pattern = "".join(part + sign for part, sign in zip(parts, [*signs, ""])) if self.pattern else re.escape(source)
        return bool(re.fullmatch(pattern, other.source)) and other.place == (self.destination or other.source)

    def __str__(self) -> str:
        """Return the form that Apptainer reads from its bind variables, where an unescaped comma ends a bind."""
        destination = self.destination or (self.source if self.options else "")
        paths = [re.sub("([:,])", r"\\\1", path) for path in (self.source, destination) if path]
        return ":".join([*paths, *filter(None, [self.options])])


def parse_elements(text: str, *, origin: str = "") -> tuple[Bind, ...]:
    """Parse the value of a bind variable as Apptainer does, without validating it; empty elements are skipped."""
    elements = []
    for element in _split_elements(text):
        parts = [re.sub(r"\\([:,])", r"\1", part) for part in re.split(r"(?<!\\):", element, maxsplit=2)]
        source, destination, options = (*parts, "", "")[:3]
        elements.append(Bind(source, destination, options, origin=origin))
    return tuple(elements)


def _split_elements(text: str) -> list[str]:
    """Return the binds in a list; several options of one bind are separated by commas too."""
    elements: list[str] = []
    for element in filter(None, re.split(r"(?<!\\),", text)):
        if elements and re.match(r"(?:ro|rw)$|(?:image-src|id)=", element):
            elements[-1] += f",{element}"
        else:
            elements.append(element)
    return elements


def can_be_bound(path: str) -> bool:
    """Return whether a bind variable can hold a path: a backslash before another backslash cannot be escaped."""
    return not re.search(r"[\x00-\x1f\x7f]", path) and not re.search(r"\\[:,]", f"{path}:")


def version_key(path: str) -> str:
    """Return a sort key that orders releases naturally: 1.10 after 1.9, numbers after words."""
    return re.sub(r"\d+", lambda match: f"~{match[0]:0>12}", path)
