"""Read which commands and files an image has from the SIF, without starting it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hpcmod.images.inspect.contents import DEFAULT_PATH, find_python, read_environment
from hpcmod.images.sif.root import open_root


@dataclass(frozen=True)
class ImageCommands:
    """Commands in an image, binds of the host not included."""

    names: frozenset[str]
    """Names of the commands in the directories of its PATH."""
    absent: tuple[str, ...]
    """Directories on its PATH that are missing in the image; some are for binds of the host."""
    files: frozenset[str]
    """The requested paths that exist in the image."""


def read_commands(image: Path, paths: Iterable[str] = ()) -> ImageCommands:
    """Read which commands an image has, and which of the given absolute paths.

    Raises
    ------
    HpcmodError
        As hpcmod.images.inspect.contents.read_facts.
    """
    with open_root(image) as squashfs:
        environment, search_path = read_environment(squashfs)
        python = find_python(squashfs, environment, search_path)
        places = dict.fromkeys([*([f"{python.prefix}/bin"] if python else []), *search_path, *DEFAULT_PATH])
        there = [place for place in places if squashfs.find(place)]
        names = (posixpath.basename(name) for place in there for name in squashfs.listdir(place))
        absent = tuple(place for place in search_path if place not in there)
        return ImageCommands(frozenset(names), absent, frozenset(path for path in paths if squashfs.find(path)))
