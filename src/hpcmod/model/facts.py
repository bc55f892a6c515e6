"""Facts of an image, read from the SIF without starting it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """A Python package inside an image."""

    name: str
    version: str


@dataclass(frozen=True)
class PythonFacts:
    """The Python an image is made for; all paths are paths inside the image."""

    executable: str
    """The interpreter, e.g. /opt/miniconda3/envs/pytorch/bin/python3.12."""
    version: str
    """Major and minor, e.g. 3.12."""
    prefix: str
    """sys.prefix of the interpreter, e.g. /opt/miniconda3/envs/pytorch."""
    activation_scripts: bool = False
    """Whether conda runs scripts when it activates the environment: then PATH alone does not stand in for that."""


@dataclass(frozen=True)
class ImageFacts:
    """What a SIF says of itself."""

    architecture: str
    """GOARCH name from the SIF header: amd64, arm64, ..."""
    size: int
    """Bytes of the SIF file."""
    python: PythonFacts | None = None
    packages: tuple[Package, ...] = ()
    """Sorted by name, case ignored."""
    commands: tuple[str, ...] = ()
    """Names of the executables beside the Python, sorted."""
    tools: tuple[str, ...] = ()
    """Names of the other executables on PATH, sorted; those in directories of the system (/usr/bin, ...) left out."""
    labels: tuple[tuple[str, str], ...] = ()
    """From /.singularity.d/labels.json, sorted by key; text from outside, hostile until quoted."""
    environment: tuple[tuple[str, str], ...] = ()
    """Plain assignments found in /.singularity.d/env/*.sh, in order, the last of a name wins."""
    assigned: tuple[str, ...] = ()
    """Sorted names of all that these scripts may assign, plainly or not."""
