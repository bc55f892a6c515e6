"""Find the states that are being edited, from their records; `editing` changes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hpcmod.install.packages.sets import PackageSet
from hpcmod.model.packages.place import edit_directory, parse_edit_directory

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
    module: str = ""
    """Module that it is for; empty if the record is damaged."""

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
        module = str(values["module"])
        return WritableState(found.directory / name, base, str(values["time"]), str(values["user"]), module)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return WritableState(found.directory / name, None, "an unknown time", "an unknown user")


def find_other_edits(found: PackageSet, tag: str) -> list[WritableState]:
    """Return the states that are being edited for other images, sorted by the name of their directory.

    They stay when an image is replaced, and can neither be continued nor packed for another image.
    """
    tags = (parse_edit_directory(name) for name in sorted(found.tree.names())) if found.exists else ()
    edits = (find_edit(found, one) for one in tags if one and one != tag)
    return [edit for edit in edits if edit]
