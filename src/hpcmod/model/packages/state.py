"""One state of a set of packages: what was requested, and what was installed for it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hpcmod.errors import BadInputError
from hpcmod.model.packages.conda import NO_CONDA, CondaPart, parse_conda_record
from hpcmod.model.packages.files import PlacedFiles, parse_placed_record
from hpcmod.model.packages.requirement import name_of, normalize_package

STATE_VERSION = 1
"""Version of the format of a state's record."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


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
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class State:
    """A state of a set."""

    number: int
    tag: str
    requirements: tuple[str, ...]
    """As typed, one per package; paths are absolute."""
    locked: tuple[Locked, ...]
    """Sorted by name."""
    module: str
    """Full name of the module that it was made for."""
    image: str
    """sha256 of the image."""
    python: str
    """Python of the image, e.g. 3.12."""
    time: str
    user: str
    action: str
    """Command that made it, as typed: add einops."""
    parent: int | None = None
    """Number of the state that it was made from; None for the first."""
    reference: str = ""
    """Where the image came from; empty if unknown."""
    options: tuple[str, ...] = ()
    """Options of pip that were used, without credentials."""
    allowed: tuple[str, ...] = ()
    """Packages of the image that the set may replace."""
    size: int = 0
    """Bytes of the state's file."""
    from_image: tuple[str, ...] = field(default=())
    """Required packages that the image has, as name==version."""
    sha256: str = ""
    """Of the state's file; empty if there is none."""
    files: tuple[PlacedFiles, ...] = ()
    """Plain files beside the packages, sorted by place."""
    conda: CondaPart = NO_CONDA
    """conda packages beside those of pip."""

    @property
    def names(self) -> frozenset[str]:
        """Return the normalized names of the required packages."""
        return frozenset(filter(None, map(name_of, self.requirements)))

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was requested."""
        return not (self.requirements or self.files or self.conda.requirements)

    @property
    def count(self) -> int:
        """Return the number of installed packages, of pip and conda."""
        return len(self.locked) + len(self.conda.packages)

    def find(self, name: str) -> Locked | None:
        """Return an installed package by its name."""
        return next((one for one in self.locked if one.name == normalize_package(name)), None)


def render_state(state: State) -> str:
    """Return the record of a state as JSON."""
    return json.dumps({"state": STATE_VERSION, **asdict(state)}, indent=1) + "\n"


def parse_state(text: str | bytes, origin: str) -> State:
    """Parse the record of a state, which other members of a project may have written.

    Raises
    ------
    BadInputError
        If it is damaged, or written by a newer version of hpcmod.
    """
    try:
        values = json.loads(text)
        if values["state"] != STATE_VERSION:
            raise BadInputError(
                f"{origin}: record version {values['state']!r}, expected {STATE_VERSION}",
                "Use the newer hpcmod that wrote it.",
            )
        return _make_state(values)
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise BadInputError(
            f"{origin}: the record of this state is damaged ({err})", "Use another state: hpcmod packages NAME --use N"
        ) from err


def _make_state(values: Mapping[str, Any]) -> State:
    parent = values["parent"]
    return State(
        number=int(values["number"]),
        tag=_text(values["tag"]),
        requirements=_texts(values["requirements"]),
        locked=tuple(_make_locked(one) for one in values["locked"]),
        module=_text(values["module"]),
        image=_text(values["image"]),
        python=_text(values["python"]),
        time=_text(values["time"]),
        user=_text(values["user"]),
        action=_text(values["action"]),
        parent=None if parent is None else int(parent),
        reference=_text(values["reference"]),
        options=_texts(values["options"]),
        allowed=_texts(values["allowed"]),
        size=int(values["size"]),
        from_image=_texts(values["from_image"]),
        sha256=_digest(values["sha256"]),
        files=parse_placed_record(values),
        conda=parse_conda_record(values),
    )


def _make_locked(one: Mapping[str, Any]) -> Locked:
    sha256 = _digest(one["sha256"])
    name, version, url, since = (_text(one[key]) for key in ("name", "version", "url", "since"))
    return Locked(name, version, sha256, url, int(one["size"]), since)


def _digest(value: object) -> str:
    text = _text(value)
    if text and not _SHA256.fullmatch(text):
        raise ValueError(f"{text!r} is not a sha256")
    return text


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is not a list")
    return tuple(map(_text, values))
