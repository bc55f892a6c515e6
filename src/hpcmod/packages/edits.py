"""Find the states that are being edited, from their records; `editing` changes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.json_form import HIDDEN, parse_json
from hpcmod.modules.values.place import edit_directory
from hpcmod.packages.sets import PackageSet

FILES = "user-software"
"""Directory with the files of an edited state."""

RECORD = "edit.json"
_LIMIT = 1 << 16  # bytes of the record


@dataclass(frozen=True)
class WritableState:
    """A state that is being edited."""

    directory: Path = field(metadata=HIDDEN)
    base: int | None = None
    """Number of the state that it started from; None for no packages."""
    time: str = "an unknown time"
    user: str = "an unknown user"

    @property
    def files(self) -> Path:
        """Return the directory that a container sees at /user-software."""
        return self.directory / FILES


def find_edit(found: PackageSet, tag: str) -> WritableState | None:
    """Return the state that is being edited for an image; None if there is none."""
    name = edit_directory(tag)
    if not found.exists or name not in found.tree.names():
        return None
    directory = found.directory / name
    try:
        text = found.tree.read(f"{name}/{RECORD}", _LIMIT)
        return parse_json(WritableState, text, RECORD, limit=_LIMIT, directory=directory)
    except (OSError, BadInputError):
        return WritableState(directory)
