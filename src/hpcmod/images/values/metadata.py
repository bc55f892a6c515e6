"""Name and version of an installed Python package, from its metadata."""

from __future__ import annotations

import re
from collections.abc import Callable

from hpcmod.core.values.facts import Package

METADATA_LIMIT = 1024  # bytes: name and version are in the first three lines, a licence may follow for kilobytes

METADATA = (".dist-info", ".egg-info")
"""Suffixes of the directories or files that describe an installed Python package."""

_INFO = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*?)-([A-Za-z0-9.!+_]+)(?:-py\d[^-]*)?\.(?:dist|egg)-info")
_NAME = re.compile(r"^Name:[ \t]*([A-Za-z0-9][A-Za-z0-9._-]*)[ \t]*\r?$", re.MULTILINE)
_VERSION = re.compile(r"^Version:[ \t]*([A-Za-z0-9.!+_-]+)[ \t]*\r?$", re.MULTILINE)


def read_package(path: str, read: Callable[[str], str]) -> Package | None:
    """Read a package's name and version from its metadata, else from the name of its directory.

    `read`: Returns the first METADATA_LIMIT bytes of a file as text, empty if there is none.
    """
    text = ""
    for candidate in (f"{path}/METADATA", f"{path}/PKG-INFO", path):
        text = text or read(candidate)
    written_name, written_version = _NAME.search(text), _VERSION.search(text)
    if written_name and written_version:
        return Package(written_name.group(1), written_version.group(1))
    named = _INFO.fullmatch(path.rpartition("/")[2])
    return Package(*named.groups()) if named else None
