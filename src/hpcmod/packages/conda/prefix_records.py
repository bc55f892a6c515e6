"""Read which Python packages of a prefix conda has installed, from its records."""

from __future__ import annotations

import json
from pathlib import Path

from hpcmod.core.fs.reading import read_file
from hpcmod.core.values.metadata import METADATA
from hpcmod.images import read_packages_in

_LIMIT = 64 << 20  # bytes of a record, which has the names of all files of a package


def find_conda_metadata(prefix: Path) -> frozenset[tuple[str, str]]:
    """Return name and version of the Python packages that conda has installed in a prefix.

    A damaged record counts as one without packages.
    """
    directories = {
        str(parent)
        for record in sorted((prefix / "conda-meta").glob("*.json"))
        for name in _read_files(record)
        for parent in Path(name).parents
        if parent.name.endswith(METADATA)
    }
    sites = {(prefix / one).parent for one in directories}
    kept = {(prefix / one).name for one in directories}
    return frozenset((package.name, package.version) for site in sites for package in read_packages_in(site, only=kept))


def _read_files(record: Path) -> list[str]:
    try:
        listed = json.loads(read_file(record, _LIMIT))["files"]
        return [one for one in listed if isinstance(one, str)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
