"""Remove files from a catalogue by renaming them, so that a removal is all or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcmod.catalogue.records.sharing import removal_group
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.core.errors import LackingError
from hpcmod.core.fs.ownership import user_name
from hpcmod.core.fs.tree import Tree
from hpcmod.core.values.text import listed

_SHOWN = 3  # paths named in one message


@dataclass(frozen=True)
class Move:
    """A rename within the catalogue, both paths relative to its directory; repeating it has no effect."""

    source: str
    target: str

    @property
    def reversed(self) -> Move:
        """Return the rename that undoes this one."""
        return Move(self.target, self.source)


def moves_out(change: int, paths: Iterable[str]) -> tuple[Move, ...]:
    """Return the renames that remove paths from a catalogue for a change."""
    return tuple(Move(path, f"{_TRASH}/{change}/{path}") for path in paths)


def move_to_trash(catalogue: Catalogue, moves: Sequence[Move]) -> None:
    """Carry out renames, skipping those already done."""
    tree = Tree(catalogue.directory)
    for move in moves:
        if os.path.lexists(catalogue.directory / move.source):
            tree.make_directory(Path(move.target).parent)
            tree.rename(move.source, move.target, open_to=removal_group(catalogue, catalogue.directory / move.source))


def check_removable(catalogue: Catalogue, paths: Iterable[str]) -> None:
    """Raise LackingError, before anything is touched, if this user may not remove everything below some paths."""
    closed = sorted({place for path in paths for place in _closed(catalogue.directory / path)})
    if closed:
        owners = sorted({user_name(place.stat().st_uid) for place in closed})
        raise LackingError(
            f"you may not remove files in {listed([*map(str, closed)], _SHOWN)}; nothing was removed",
            f"Ask {' or '.join(owners)} to run: hpcmod catalogue verify --fix-modes",
        )


def delete_trash(catalogue: Catalogue) -> list[str]:
    """Delete what changes removed from a catalogue; return what could not be deleted, and why."""
    left = []
    group = removal_group(catalogue, catalogue.directory / _TRASH / "0")
    for place in (catalogue.directory / _TRASH / name for name in catalogue.tree.names(_TRASH)):
        try:
            catalogue.tree.remove_all(place, open_to=group)
        except OSError as err:
            left.append(f"{err.filename or place}: {err.strerror}")
    catalogue.tree.remove_empty(_TRASH)
    return left


_TRASH = ".trash"


def _closed(path: Path) -> Iterator[Path]:
    """Yield the directories at and below a path, and the one above, in which this user may not remove entries."""
    if not os.access(path.parent, os.W_OK | os.X_OK):
        yield path.parent
    if path.is_dir() and not path.is_symlink():
        for place, _, _ in os.walk(path):
            if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
                yield Path(place)
