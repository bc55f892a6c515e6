"""Files left behind when an installation is removed: packages added by its user, and empty directories."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hpcmod.fs.removal import prune, remove_path
from hpcmod.install.installed import RECORD
from hpcmod.model.catalogue.record import is_file_name

USER_LAYER = "user-software"
"""Prefix of the file names of packages that a user adds to an installation."""

_MODULES = ("modules", "all")
_EMPTY = ("modules/*", "modules", "build", "ebfiles_repo/*", "ebfiles_repo", "sources/*", "sources")
"""Directories that EasyBuild creates below a prefix, deepest first."""
_LOCKS = ("software/.locks", "software")


def software_directories(trees: Iterable[Path]) -> list[Path]:
    """Return the installation directories that belong to directories of modulefiles."""
    prefixes = (tree.parents[1] for tree in trees if tree.parts[-2:] == _MODULES)
    return list(dict.fromkeys(prefix / "software" for prefix in prefixes))


def find_left_packages(software: Iterable[Path], module: str) -> list[Path]:
    """Find packages that a user added to an installation that has been removed, by NAME/VERSION or NAME.

    Parameters
    ----------
    software
        Directories that contain installations.
    """
    name, _, version = module.partition("/")
    if not all(map(is_file_name, module.split("/"))):
        return []
    roots = (root for place in software for root in sorted(place.glob(f"{name}/{version or '*'}")))
    return [path for root in roots if _is_removed(root) for path in sorted(root.iterdir()) if is_user_packages(path)]


def _is_removed(root: Path) -> bool:
    """Return whether a directory of this user no longer contains an installation."""
    return root.is_dir() and root.stat().st_uid == os.geteuid() and not (root / RECORD).exists()


def is_user_packages(path: Path) -> bool:
    """Return whether a path in an installation directory is for packages added by the user."""
    return path.name.startswith(USER_LAYER)


def remove_left_packages(path: Path) -> None:
    """Remove packages found by `find_left_packages`, and directories that become empty."""
    remove_path(path)
    for directory in path.parents[:2]:
        prune(directory)
    prune_prefix(path.parents[2])


def prune_prefix(software: Path) -> None:
    """Remove empty directories that an EasyBuild installation left next to the software directory.

    The prefix itself is removed only if it has the name that EasyBuild and hpcmod give to prefixes.
    """
    prefix = software.parent
    if software.name != "software" or any(_names(software) - {".locks"}):
        return
    for pattern in (*_EMPTY, *_LOCKS):
        for directory in prefix.glob(pattern):
            prune(directory)
    if prefix.name == "easybuild":
        prune(prefix)


def _names(directory: Path) -> set[str]:
    try:
        return {path.name for path in directory.iterdir()}
    except OSError:
        return set()
