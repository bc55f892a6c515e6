"""Access a file through its open directory: by a path that stays valid while others replace directories."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcmod.core.errors import HpcmodError
from hpcmod.core.fs.beneath import closing
from hpcmod.core.fs.tree import Tree


@contextmanager
def anchored_at(path: Path, below: Path | None) -> Iterator[Path]:
    """Create a file's directory; yield a path of the file that keeps its meaning whatever others rename meanwhile.

    `below`: A directory that others may write too; no link below it is followed. None if there is no such directory.

    Raises OSError (ELOOP if there is a link below that directory).
    """
    if below is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path
        return
    tree = Tree(below)
    tree.make_directory(path.parent)
    with closing(tree.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)) as place:
        yield Path(f"/proc/self/fd/{place}", path.name)


@contextmanager
def renamed_in_errors(anchored: Path, path: Path) -> Iterator[None]:
    """Use the file's real path in errors, not the path through a descriptor."""
    hidden, shown = str(anchored.parent), str(path.parent)
    try:
        yield
    except HpcmodError as err:
        err.message, err.cure = err.message.replace(hidden, shown), err.cure.replace(hidden, shown)
        err.args = (err.message,)
        raise
    except OSError as err:
        if err.filename or err.errno:
            err.filename = str(err.filename or path).replace(hidden, shown)
        raise
