"""Find the states that are being edited, from their records; `editing` changes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hpcmod.install.packages.sets import PackageSet
from hpcmod.model.packages.place import edit_directory

FILES = "user-software"
"""Directory with the files of an edited state."""

RECORD = "edit.json"
_LIMIT = 1 << 16  # bytes of the record


@dataclass(frozen=True)
class WritableState:
    """A state that is being edited."""

    directory: Path
    base: int | None
    """Number of the state that it started from; None for no packages."""
    time: str
    user: str

    @property
    def files(self) -> Path:
        """Return the directory that a container sees at /user-software."""
        return self.directory / FILES


def find_edit(found: PackageSet, tag: str) -> WritableState | None:
    """Return the state that is being edited for an image; None if there is none."""
    name = edit_directory(tag)
    if not found.exists or name not in found.tree.names():
        return None
    try:
        values = json.loads(found.tree.read(f"{name}/{RECORD}", _LIMIT))
        base = None if values["base"] is None else int(values["base"])
        return WritableState(found.directory / name, base, str(values["time"]), str(values["user"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return WritableState(found.directory / name, None, "an unknown time", "an unknown user")
