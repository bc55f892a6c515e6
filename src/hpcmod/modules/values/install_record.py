"""The files of an installation by their names, and its record."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass, field, replace

from hpcmod.core.values.facts import Package, Provenance, PythonFacts
from hpcmod.core.values.json_form import TABLE, json_form, parse_json
from hpcmod.core.values.strict_json import Texts

RECORD_VERSION = 1

RECORD = "record.json"
"""Record of an installation's content: the last file written before the modulefile."""

DEFINITIONS = "share/docker-defs"
"""Directory of the definitions of images, below the root of an installation."""

PROGRAM = "in-environment"
"""Program that runs the image of an installation with the environment of its module."""

PACKAGE_LIST = "libexec/packages"
"""List of the image's packages, for the modulefile."""

LOGIC = {"Lua": ".lua", "Tcl": ".tcl"}
"""Suffixes of the files in libexec/ that a modulefile calls, by its syntax."""

RUNSCRIPTS = (
    "check-nodes",
    "conda-python-distributed",
    "conda-python-simple",
    "get-master",
    "init-conda-venv",
    "list-packages",
    "one-per-node",
    "python-conda-simple",
    "remove-caches",
    "run-in-env",
    "signal-ranks",
    "stage-data",
    "stage-image",
)
"""Names of the scripts in the run script directory; the wrappers call run-in-env."""

IN_BASH_OF_IMAGE = (
    "conda-python-distributed",
    "conda-python-simple",
    "list-packages",
    "python-conda-simple",
    "run-in-env",
)
"""Those of RUNSCRIPTS that only run in the container, with the image's bash."""

USER_SOFTWARE = "user-software"
"""The directory of an installation that has the user's own packages."""

PACKED = f"{USER_SOFTWARE}.squashfs"
"""The file with packages that containers use instead of the directory."""

DESCRIBED = f"{USER_SOFTWARE}.json"
"""Describes the packed packages that an easyconfig names."""

MODULES = "modules/all"
"""Directory of modulefiles below a prefix."""

SUFFIXES = {"Lua": ".lua", "Tcl": ""}
"""Suffixes of modulefiles, by EasyBuild's names for the two syntaxes."""

SYNTAXES = tuple(SUFFIXES)

MODULERC = {"Lua": ".modulerc.lua", "Tcl": ".modulerc"}
"""By syntax, the file in a name's directory that defines its aliases."""

IMAGE, SCRIPTS, MODULEFILE, PACKAGES = "image", "scripts", "modulefile", "packages"
"""The parts of an installation, which are the rules of findings about it."""

_MARK = b"Written by hpcmod."
_ROOT = re.compile(rb'^(?:local root =|set root) "((?:[^"\\]|\\.)*)"$', re.MULTILINE)

RECORD_LIMIT = 16 << 20
"""Maximum size of a record in bytes; one with 400 packages takes 30 kB."""

SCRIPT_PLACES = ("bin", "libexec", "runscripts", "runscripts/bin", "runscripts/lib")


@dataclass(frozen=True)
class InstalledImage:
    """The image that an installation uses, and how it was put in place."""

    path: str = ""
    sha256: str = ""
    size: int = 0
    source: str = ""
    method: str = ""
    """`kept` (same digest as before), `central`, or the copy method: reflink, hardlink, copy_file_range, stream."""
    bytes_written: int = 0
    modified: int = 0
    """Modification time of the image, in nanoseconds since 1970."""


@dataclass(frozen=True)
class InstalledModule:
    """The modulefile of an installation."""

    path: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class OwnPackages:
    """What `hpcmod add` needs to know of an image with Python."""

    name: str
    """Name of the container without its version, e.g. PyTorch."""
    tag: str
    """Python and image that a state fits; see `make_tag`."""
    venv: str
    """The virtual environment of the packages in the container."""
    python: PythonFacts


@dataclass(frozen=True)
class Fit:
    """What is known about an image on the machine where it was installed."""

    has_mpi: bool | None = None
    """None: not known."""
    targets: tuple[str, ...] = ()
    """Micro-architectures that the image is built for (gfx90a, sm_90, zen3); empty: not known."""
    fingerprint: str = ""
    """Of everything that the verdict depends on, which the rest is; empty: there is no verdict."""
    mpi: str = ""
    """The MPI that programs use, one of hpcmod.compat.values.mpi; empty: none."""
    problems: tuple[str, ...] = ()
    """Findings at the levels fail and warn, each with its fix."""


@dataclass(frozen=True)
class InstallRecord:
    """What was installed. Its strings may be hostile: anyone who can write to the directory may have written it."""

    record: int = RECORD_VERSION
    """Version of this format."""
    hpcmod: str = ""
    """Version of hpcmod that wrote the scripts."""
    time: str = ""
    """Of the installation, ISO 8601, UTC."""
    module: str = ""
    """Full name of the module."""
    site: str = ""
    """Name of the site profile that it was made for."""
    profile: str = ""
    """Shipped name or path of that profile; empty: its name, which one that comes with hpcmod may have."""
    image: InstalledImage = field(default_factory=InstalledImage)
    unfinished: bool = False
    """Whether the installation has not written its modulefile yet."""
    modulefile: InstalledModule = field(default_factory=InstalledModule)
    """The modulefile as it was installed; empty in a catalogue, which may change it."""
    fit: Fit = field(default_factory=Fit)
    own_packages: OwnPackages | None = None
    """None if the image has no Python."""
    provenance: Provenance | None = None
    """Where the image came from, if known."""
    rendering: str = ""
    """Hash of the scripts in a catalogue."""
    files: Texts = field(default=(), metadata=TABLE)
    """The scripts and wrappers, by their paths below the root, with their sha256; empty: not known, in a catalogue."""
    packages: tuple[Package, ...] = ()
    """Python packages in the image."""

    @property
    def scripts(self) -> frozenset[str]:
        """Return the files in the directories of scripts: no other file may be removed because a record names it."""
        paths = [name.rpartition("/") for name, _ in self.files]
        return frozenset("".join(path) for path in paths if path[0] in SCRIPT_PLACES and path[2] not in ("", ".", ".."))

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the commands that the module puts on PATH, those of hpcmod too; empty if not known."""
        return tuple(sorted(name.removeprefix("bin/") for name in self.scripts if name.startswith("bin/")))

    def without_checksums(self) -> InstallRecord:
        """Return the record as a catalogue keeps it, which may change the recorded files."""
        return replace(
            self, unfinished=False, modulefile=InstalledModule(), files=tuple((n, "") for n, _ in self.files)
        )


NO_RECORD = InstallRecord()
"""Where there is no record, or none that can be read."""


def parse_install_record(text: bytes, where: str = "record") -> InstallRecord:
    """Parse a record, which may be damaged or come from an untrusted source.

    Raises BadInputError if it is not a record.
    """
    return parse_json(InstallRecord, text, where, limit=RECORD_LIMIT)


def render_install_record(record: InstallRecord) -> str:
    """Return the stored JSON of a record."""
    return json.dumps(json_form(record), indent=1) + "\n"


def link_of(name: str) -> str:
    """Return the target of a link in an installation, by its path below the root; empty for other files.

    The commands are links to one wrapper, which knows by its own name what to run; records have the text behind a link.
    """
    if name == PROGRAM:
        return f"libexec/{PROGRAM}"
    return "../libexec/wrapper" if name.startswith("bin/") else ""


def is_started(name: str) -> bool:
    """Return whether a file of an installation is started, not read: parts have a suffix or are in runscripts/lib."""
    is_part = name.startswith("runscripts/lib/") or "." in posixpath.basename(name)
    return name.startswith("runscripts/bin/") or not (is_part or name in (PACKAGE_LIST, "README"))


def is_user_packages(name: str) -> bool:
    """Return whether a file in the root of an installation is for packages added by the user."""
    return name.startswith(USER_SOFTWARE)


def find_root(modulefile: bytes) -> bytes:
    """Return the installation directory that a modulefile loads; empty if hpcmod did not write the modulefile."""
    match = _ROOT.search(modulefile)
    if _MARK not in modulefile or match is None:
        return b""
    # an installation path has no control characters, so a backslash only escapes the next character
    return re.sub(rb"\\(.)", rb"\1", match[1])
