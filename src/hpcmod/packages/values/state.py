"""One state of a set of packages: what was requested, and what was installed for it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.json_form import SPLICED, json_form, parse_json
from hpcmod.core.values.strict_json import show_value
from hpcmod.modules.values.place import active_link, parse_active_link
from hpcmod.packages.values.conda import NO_CONDA, CondaPart, check_conda
from hpcmod.packages.values.requirement import (
    check_line,
    exact_line,
    is_package,
    name_of,
    normalize_package,
    place_of,
    without_credentials,
)

STATE_VERSION = 1
"""Version of the format of a state's record."""

_LIMIT = 8 << 20  # bytes of a record
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OF_VCS = re.compile(r"^[a-z]+\+|(?:@[^/]*)?(?:#.*)?$")
_PYTHON = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Locked:
    """A package that pip installed, and the file it came from."""

    name: str
    """Normalized; see `normalize_package`."""
    version: str
    sha256: str = ""
    """sha256 of the downloaded wheel or source; empty if pip does not report it, as for a git repository."""
    url: str = ""
    """Where it came from, without credentials."""
    size: int = 0
    """Installed bytes."""
    since: str = ""
    """Time at which this version was first added to the set, in UTC."""

    @property
    def pin(self) -> str:
        """Return the requirement that only this version meets."""
        return exact_line(self.name, self.version)


@dataclass(frozen=True)
class StateOrigin:
    """What a state was made for, when, by whom, and how."""

    module: str
    """The module that it was made for."""
    image: str
    """sha256 of the image."""
    python: str
    """Python of the image, e.g. 3.12."""
    time: str
    user: str
    action: str
    """Command that made it, as typed."""
    reference: str = ""
    """Where the image came from; empty if unknown."""
    options: tuple[str, ...] = ()
    """Options of pip that were used, without credentials."""


@dataclass(frozen=True)
class State:
    """A state of a set."""

    number: int
    tag: str
    requirements: tuple[str, ...]
    """As typed, one per package; paths are absolute."""
    locked: tuple[Locked, ...]
    """Sorted by name."""
    origin: StateOrigin = field(metadata=SPLICED)
    parent: int | None = None
    """Number of the state that it was made from; None for the first."""
    allowed: tuple[str, ...] = ()
    """Packages of the image that the set may replace."""
    size: int = 0
    """Bytes of the state's file."""
    sha256: str = ""
    """Of the state's file; empty if there is none."""
    from_image: tuple[str, ...] = ()
    """Required packages that the image has, as name==version."""
    conda: CondaPart = NO_CONDA
    """conda packages beside those of pip."""
    programs: tuple[str, ...] = ()
    """Names of the programs that the packages of pip have brought."""

    @property
    def names(self) -> frozenset[str]:
        """Return the normalized names of the required packages."""
        return frozenset(filter(None, map(self.name_in, self.requirements)))

    def name_in(self, line: str) -> str:
        """Return the normalized name of a required package, also if a path or URL names it; empty if not known."""
        named = name_of(line)
        if named:
            return named
        url = f"file://{place_of(line)}" if place_of(line) else _OF_VCS.sub("", without_credentials(line))
        return next((package.name for package in self.locked if unquote(package.url) == url), "")

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was requested."""
        return not (self.requirements or self.conda.requirements)

    @property
    def has_nothing(self) -> bool:
        """Return whether nothing is installed; what was edited may have files that belong to no package."""
        return self.is_empty and not self.count and self.origin.action != "edit"

    @property
    def count(self) -> int:
        """Return the number of installed packages, of pip and conda."""
        return len(self.locked) + len(self.conda.packages)

    def find(self, name: str) -> Locked | None:
        """Return an installed package by its name."""
        return next((package for package in self.locked if package.name == normalize_package(name)), None)


def render_state(state: State) -> bytes:
    """Return the record of a state as JSON; parts of paths that are not UTF-8 become `?`."""
    text = json.dumps({"state": STATE_VERSION, **json_form(state)}, indent=1, ensure_ascii=False)
    return f"{text}\n".encode(errors="replace")


def parse_state(text: bytes, origin: str) -> State:
    """Parse the record of a state, which other members of a project may have written.

    Raises BadInputError if it is damaged, or written by a newer version of hpcmod.
    """
    try:
        state = parse_json(State, text, origin, limit=_LIMIT, version=("state", STATE_VERSION))
        _check(state, origin)
        check_conda(state.conda)
        return replace(state, parent=state.parent or None)
    except BadInputError as err:
        raise BadInputError(
            f"the record of this state is damaged: {err.message}", "Use another state: hpcmod packages NAME --use N"
        ) from err


def _check(state: State, origin: str) -> None:
    """Check all text of a record that becomes part of a file, an option or a path."""
    for line in state.requirements:
        check_line(line)
    for package in state.locked:
        if not package.pin or package.name != normalize_package(package.name):
            raise BadInputError(f"{origin}: {package.name!r} {package.version!r} is not a package and its version")
    made = state.origin
    sums = (state.sha256, *(package.sha256 for package in state.locked))
    wrong = [("sha256", sha256, "64 hexadecimal digits") for sha256 in sums if sha256 and not _SHA256.fullmatch(sha256)]
    wrong += [("allowed", name, "the name of a package") for name in state.allowed if not is_package(name)]
    wrong += [("tag", state.tag, "a Python and an image")] if parse_active_link(active_link(state.tag)) is None else []
    wrong += [("image", made.image, "a sha256")] if not _SHA256.fullmatch(made.image) else []
    wrong += [("python", made.python, "a version")] if not _PYTHON.fullmatch(made.python) else []
    shown = [*made.options, *state.from_image, *state.programs, made.action, made.reference]
    shown += [made.module, made.time, made.user]
    wrong += [("text", text, "printable text") for text in shown if not text.isprintable()]
    for key, value, expected in wrong:
        raise BadInputError(f"{origin}: {key}: expected {expected}, found {show_value(value)}")
