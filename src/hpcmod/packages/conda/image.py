"""Read what a conda solver needs to know about an image: its own conda packages, its glibc and its processor."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from hpcmod.compat import find_stack, open_files
from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.values.facts import PythonFacts
from hpcmod.images import Sif
from hpcmod.images.inspect.contents import MOST_LISTED, baked_prefixes
from hpcmod.packages.values.conda import CONDA_IN_CONTAINER

_RECORD_LIMIT = 64 << 20  # bytes; the record of a package has the names of all its files
_SUBDIRS = {"amd64": "linux-64", "arm64": "linux-aarch64", "ppc64le": "linux-ppc64le"}
"""Directory of a channel by GOARCH name."""
_LIBRARY = re.compile(r"lib/[A-Za-z0-9_.+-]+\.so(?:\.[0-9.]+)?")
_NEEDED = ("name", "version", "build")
_KEPT = ("build_number", "depends", "constrains", "subdir", "noarch")


@dataclass(frozen=True)
class CondaImage:
    """What a conda solver needs to know about an image."""

    subdir: str
    """Directory of a channel with packages for its processor, e.g. linux-64."""
    glibc: str
    """Release of its glibc, e.g. 2.31; empty if it has another C library."""
    records: tuple[dict[str, object], ...]
    """Its conda packages, as in conda-meta; none if its Python is not conda's."""
    libraries: tuple[str, ...] = ()
    """Paths in the image of their shared libraries, those that come first at the front."""

    @property
    def names(self) -> frozenset[str]:
        """Return the names of its conda packages."""
        return frozenset(str(record["name"]) for record in self.records)

    @property
    def is_conda(self) -> bool:
        """Return whether its Python is conda's."""
        return "python" in self.names


def read_conda_image(sif: str, python: PythonFacts | None) -> CondaImage:
    """Read the conda packages of an image from the prefix of its Python, if it has one, and its glibc.

    Nothing is started.

    Raises LackingError if there are no conda packages for its processor; BadInputError if its records are damaged.
    """
    with open_files(sif) as files:
        stack = find_stack(files, Sif(sif).facts())
    if stack.architecture not in _SUBDIRS:
        raise LackingError(f"there are no conda packages for {stack.architecture}", "Use pip: hpcmod add NAME PACKAGE")
    records, libraries = _read_records(sif, python)
    return CondaImage(_SUBDIRS[stack.architecture], stack.glibc, records, libraries)


def _read_records(sif: str, python: PythonFacts | None) -> tuple[tuple[dict[str, object], ...], tuple[str, ...]]:
    records: dict[str, dict[str, object]] = {}
    libraries: dict[str, str] = {}
    with Sif(sif).root() as squashfs:
        prefixes = (*baked_prefixes(squashfs), *((python.prefix,) if python else ()), CONDA_IN_CONTAINER)
        for prefix in dict.fromkeys(prefixes):
            names = [name for name in squashfs.listdir(f"{prefix}/conda-meta") if name.endswith(".json")]
            for name in sorted(names)[:MOST_LISTED]:
                record, files = _parse(squashfs.read_bytes(f"{prefix}/conda-meta/{name}", _RECORD_LIMIT), name)
                records.setdefault(str(record["name"]), record)
                for library in filter(_LIBRARY.fullmatch, files):
                    libraries.setdefault(library, f"{prefix}/{library}")
    return tuple(records.values()), tuple(libraries.values())


def _parse(data: bytes, name: str) -> tuple[dict[str, object], list[str]]:
    try:
        values = json.loads(data)
        kept = {key: values[key] for key in (*_NEEDED, *(key for key in _KEPT if key in values))}
        return {"depends": [], "constrains": [], "build_number": 0, "subdir": "noarch", **kept}, [
            file for file in values.get("files", []) if isinstance(file, str)
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise BadInputError(f"the image's record of the conda package {name} is damaged: {err}") from err
