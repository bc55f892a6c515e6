"""Install a tiny distribution that adds a format to `hpcmod import`: code and metadata in a directory on sys.path."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

CODE = """from hpcmod.importing.formats import ImportFormat
from hpcmod.importing.outcome import ImportedEasyconfig
from hpcmod.modules.text.easyconfig import EasyconfigText


def convert(paths, watch):
    for path in paths:
        for line in path.read_text().splitlines():
            name, version, image = line.split()
            text = EasyconfigText(name=name, version=version, image=image, description=name)
            yield ImportedEasyconfig(str(path), text)


FORMAT = ImportFormat("Convert the list of a site's containers.", convert, examples=("ours.list",))
OTHER = "not a format"
"""


def add_distribution(directory: Path, name: str, package: str, formats: Mapping[str, str]) -> Path:
    """Install a distribution below a directory, add its site-packages to sys.path, and return that path.

    Parameters
    ----------
    formats
        Entry points of the group hpcmod.importers: name and object, e.g. `{"ourlist": "site_tools:FORMAT"}`.
    """
    place = directory / "site-packages"
    (place / package).mkdir(parents=True)
    (place / package / "__init__.py").write_text(CODE)
    (place / package / "broken.py").write_text("1 / 0\n")
    metadata = place / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{entry} = {target}\n" for entry, target in formats.items())
    (metadata / "entry_points.txt").write_text(f"[hpcmod.importers]\n{lines}")
    sys.path.insert(0, str(place))
    return place
