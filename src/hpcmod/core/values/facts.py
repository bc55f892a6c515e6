"""Facts about an image: read from the SIF without starting it, and where it came from."""

from __future__ import annotations

import re
from dataclasses import dataclass

PROVENANCE = ".provenance.json"
"""What the name of a SIF's provenance file, which is beside it, has more than that of the SIF."""

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def architecture_name(machine: str) -> str:
    """Return the GOARCH name of a kernel machine name: x86_64 -> amd64; other names unchanged."""
    return _MACHINES.get(machine, machine)


@dataclass(frozen=True)
class Package:
    """A Python package inside an image."""

    name: str
    version: str


def comparable_name(name: str) -> str:
    """Return the normalized name of a package, as package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class PythonFacts:
    """The Python of an image; all paths are paths inside the image."""

    executable: str
    """The interpreter, e.g. /opt/miniconda3/envs/pytorch/bin/python3.12."""
    version: str
    """Major and minor, e.g. 3.12."""
    prefix: str
    """sys.prefix of the interpreter, e.g. /opt/miniconda3/envs/pytorch."""
    activation_scripts: bool = False
    """Whether conda runs scripts when it activates the environment: setting PATH alone is then not enough."""


COMMAND, OWN, NO_ENTRY = "command", "own", "none"
"""What a run script does with a command line: starts it; passes it to a program of its own; there is no run script."""


@dataclass(frozen=True)
class ImageFacts:
    """Facts read from a SIF."""

    architecture: str
    """GOARCH name from the SIF header: amd64, arm64, ..."""
    size: int
    """Bytes of the SIF file."""
    python: PythonFacts | None = None
    packages: tuple[Package, ...] = ()
    """Sorted by name, case ignored."""
    commands: tuple[str, ...] = ()
    """Names of the executables next to Python, sorted."""
    tools: tuple[str, ...] = ()
    """Names of the other executables on PATH, sorted, except those in system directories (/usr/bin, ...)."""
    labels: tuple[tuple[str, str], ...] = ()
    """From /.singularity.d/labels.json, sorted by key; untrusted strings, quote before use."""
    environment: tuple[tuple[str, str], ...] = ()
    """Plain assignments found in /.singularity.d/env/*.sh, in order; the last assignment of a name wins."""
    assigned: tuple[str, ...] = ()
    """Sorted names of all variables that these scripts may assign, in any way."""
    has_bash: bool = True
    """Whether it has /bin/bash, which the run scripts need."""
    trial: tuple[str, ...] = ("true",)
    """Command line that succeeds and does nothing, to try whether the image starts; empty: it has no such program."""
    conda: str = ""
    """Root of the conda installation that has this Python, e.g. /opt/miniconda3; empty without a `conda` there."""
    entry: str = COMMAND
    """What its run script does with a command line: COMMAND, OWN or NO_ENTRY."""


@dataclass(frozen=True)
class ImageCommands:
    """Commands in an image, binds of the host not included."""

    names: frozenset[str]
    """Names of the commands in the directories of its PATH."""
    absent: tuple[str, ...]
    """Directories on its PATH that are missing in the image; some are for binds of the host."""
    files: frozenset[str]
    """The requested paths that exist in the image."""
    programs: frozenset[str] = frozenset()
    """Those of them that are executable files."""


@dataclass(frozen=True)
class Provenance:
    """The origin of a SIF."""

    reference: str
    """Canonical reference that it was fetched from."""
    digest: str
    """Digest of the manifest or index that the reference named then; empty if there is none."""
    sha256: str
    """Checksum of the SIF."""
    size: int
    """Size of the SIF in bytes."""
    time: str
    """Time of the fetch or build, in UTC."""
    tool: str
    """The program that fetched or made it: hpcmod or a runtime, with its version."""
    verified: tuple[str, ...] = ()
    """How the site's policy was met, as `need: by what`; empty if nothing was required."""
    lock: str = ""
    """sha256 of the lock file with the packages that were added; empty if there is none."""
