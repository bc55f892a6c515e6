"""Plain files in a state, such as libraries of R or Julia: where they come from, and where a container sees them."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.text import check_plain
from hpcmod.modules.values.place import USER_LAYER_IN_CONTAINER

_TAKEN = ("venv", ".hpcmod", "constraints.txt")
"""Names below /user-software that hpcmod uses."""


@dataclass(frozen=True)
class PlacedFiles:
    """A copy of a directory or file in a state."""

    place: str
    """Path in the container."""
    source: str
    """Absolute path on the host that it was copied from."""

    @property
    def relative(self) -> str:
        """Return the path in the state's file."""
        return posixpath.relpath(self.place, USER_LAYER_IN_CONTAINER)


def parse_placed(text: str, directory: str) -> PlacedFiles:
    """Parse SOURCE:PLACE as given to --files.

    Parameters
    ----------
    directory
        Working directory, which a relative source is relative to.

    Raises
    ------
    BadInputError
        If the place is not below /user-software, or hpcmod uses it.
    """
    source, colon, place = check_plain(text, "--files").rpartition(":")
    if not (source and colon and place.startswith("/")):
        raise BadInputError(
            f"--files {text!r}: expected DIRECTORY:/PLACE", f"For example: --files ./R:{USER_LAYER_IN_CONTAINER}/R"
        )
    place = posixpath.normpath(place)
    below = posixpath.relpath(place, USER_LAYER_IN_CONTAINER)
    if below in (".", "..") or below.startswith("../"):
        raise BadInputError(
            f"--files {text!r}: containers see your packages and files in {USER_LAYER_IN_CONTAINER}, not in {place}",
            f"Choose a place there: --files {source}:{USER_LAYER_IN_CONTAINER}/{posixpath.basename(place) or 'NAME'}; "
            f"or bind the directory: export SINGULARITY_BIND={source}:{place}:ro",
        )
    if below.partition("/")[0] in _TAKEN:
        raise BadInputError(f"--files {text!r}: hpcmod uses {place}", "Choose another place below /user-software.")
    return PlacedFiles(place, posixpath.normpath(posixpath.join(directory, source)))


def merge_placed(
    before: Sequence[PlacedFiles], added: Sequence[PlacedFiles], dropped: Sequence[str]
) -> tuple[PlacedFiles, ...]:
    """Return the files of a new state, sorted by place: what is added replaces what was at its place before.

    Raises
    ------
    BadInputError
        If one place is inside another, or there is nothing to drop at a place.
    """
    gone = [posixpath.normpath(place) for place in dropped]
    for place in gone:
        if place not in [one.place for one in before]:
            raise BadInputError(f"there are no files of yours at {place}", "See: hpcmod packages NAME")
    new = {one.place for one in added}
    found = sorted([*(one for one in before if one.place not in (*new, *gone)), *added], key=lambda one: one.place)
    for one in found:
        for other in found:
            if other.place.startswith(f"{one.place}/"):
                raise BadInputError(f"{other.place} is inside {one.place}", "Put them next to each other.")
    return tuple(found)
