"""Where a user's package sets are, and the names of the files in one.

A set is a directory `<base>/packages/<container>/<set>`::

    states/3-cp312-0123456789ab.squashfs      the packages, one file per state
    states/3-cp312-0123456789ab.json          its record
    active-cp312-0123456789ab.squashfs        link to the active state for this Python and image
    .none-active-cp312-0123456789ab.squashfs  the same, if that state has no packages: no link for modules

The name of the link has the Python and the image that it fits, so a module only has to test whether it exists.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.json_form import TABLE
from hpcmod.core.values.strict_json import Texts
from hpcmod.core.values.text import check_plain

SOURCE_TIME = 315532800
"""Unix seconds: 1980, the earliest year that wheels can store. Equal packages give equal files."""

USER_LAYER_IN_CONTAINER = "/user-software"
PACKED_OPTIONS = "image-src=/,ro"
"""Bind options of packed packages; without `ro` Apptainer prints a warning in each process it starts."""

DIRECTORY_VARIABLE = "HPCMOD_PACKAGES_DIR"
CHOICE_VARIABLE = "HPCMOD_PACKAGES"
CHOOSING = (DIRECTORY_VARIABLE, CHOICE_VARIABLE)
DEFAULT_BASE = ".local/share/hpcmod"
"""Base directory in $HOME where DIRECTORY_VARIABLE is not set."""

DEFAULT_SET = "default"
OFF = "none"
"""Value of CHOICE_VARIABLE that switches all sets off."""

STATES = "states"
PREVIOUS = ".before-"
IDLE = ".none-"

_SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_STATE_FILE = re.compile(r"(\d{1,9})-(cp\d+-[0-9a-f]{12})\.squashfs")
_ACTIVE = re.compile(r"active-(cp\d+-[0-9a-f]{12})\.squashfs")


@dataclass(frozen=True)
class PackagePlace:
    """Where a module finds the user's packages that fit its image."""

    name: str
    """Name of the container without its version, e.g. PyTorch."""
    tag: str
    """Python and image that a state fits; see `make_tag`."""

    mount: str = USER_LAYER_IN_CONTAINER
    """Where the packages are in the container."""
    options: str = PACKED_OPTIONS

    @property
    def link(self) -> str:
        """Return the name of the link to the active state."""
        return active_link(self.tag)


@dataclass(frozen=True)
class SetChoice:
    """The set that a module or command uses."""

    name: str
    """Name of a set; empty for a shared one."""
    directory: str = ""
    """Directory of a shared set; empty for the user's own."""
    state: int | None = None
    """Number of one state; None for the active one."""

    @property
    def shown(self) -> str:
        """Return the value of CHOICE_VARIABLE that selects it, without the state."""
        return self.directory or self.name


@dataclass(frozen=True)
class PackedPackages:
    """The packed packages of an installation, as `user-software.json` describes them."""

    image: str
    """Digest of the image that they were installed for."""
    requirements: tuple[str, ...]
    """Lines, constraints and options for pip."""
    packages: Texts = field(metadata=TABLE)
    """Name and version of each."""
    sha256: str
    """Digest of the packed file."""
    replaces: str = ""
    """Digest of the file that was there before; both are the installation's if it was interrupted."""


def make_tag(python_version: str, sha256: str) -> str:
    """Return the tag of a Python, e.g. 3.12, and an image: cp312-0123456789ab."""
    return f"cp{python_version.replace('.', '')}-{sha256[:12]}"


def active_link(tag: str) -> str:
    """Return the name of the link to the active state of a tag."""
    return f"active-{tag}.squashfs"


def idle_link(tag: str) -> str:
    """Return the name of the link to the chosen state of a tag that has nothing, so modules are not to see it."""
    return f"{IDLE}{active_link(tag)}"


def edit_directory(tag: str) -> str:
    """Return the name of the directory of the state of a tag that is being edited."""
    return f"edit-{tag}"


def state_file(number: int, tag: str) -> str:
    """Return the path of a state, relative to its set."""
    return f"{STATES}/{number}-{tag}.squashfs"


def previous_link(number: int, tag: str) -> str:
    """Return the name of the link to the state that was active before another, if that is not its parent."""
    return f"{PREVIOUS}{number}-{tag}"


def record_file(number: int, tag: str) -> str:
    """Return the path of the record of a state, relative to its set."""
    return f"{STATES}/{number}-{tag}.json"


def parse_state_file(name: str) -> tuple[int, str] | None:
    """Return the number and tag of a state from its file name; None if it is not one."""
    match = _STATE_FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def parse_active_link(name: str) -> str | None:
    """Return the tag from the name of a link to an active state, also one without packages; None if it is not one."""
    match = _ACTIVE.fullmatch(name.removeprefix(IDLE))
    return match[1] if match else None


def check_set_name(name: str) -> str:
    """Return the name of a set if it is valid.

    Raises BadInputError if it is not a plain file name, or reserved.
    """
    if not _SET_NAME.fullmatch(name) or name == OFF:
        raise BadInputError(
            f"{name!r} is not a valid name for a set of packages",
            f"Use letters, digits, `.`, `_` and `-`, and not `{OFF}`.",
        )
    return name


def parse_choice(text: str) -> SetChoice | None:
    """Parse the value of CHOICE_VARIABLE: SET, SET@STATE, a directory, or nothing; None if sets are switched off.

    Raises BadInputError if it is neither a valid name nor an absolute path.
    """
    if text == OFF:
        return None
    name, at, number = text.rpartition("@") if re.search(r"@\d{1,9}$", text) else (text, "", "")
    state = int(number) if at else None
    if name.startswith("/"):
        return SetChoice("", check_plain(posixpath.normpath(name), CHOICE_VARIABLE), state)
    return SetChoice(check_set_name(name or DEFAULT_SET), "", state)


def base_directory(environ: Mapping[str, str]) -> str:
    """Return the directory of the user's sets, as modules compute it."""
    chosen = environ.get(DIRECTORY_VARIABLE, "")
    base = chosen if chosen.startswith("/") else posixpath.join(environ.get("HOME", "/"), DEFAULT_BASE)
    return posixpath.join(base, "packages")


def set_directory(name: str, choice: SetChoice, environ: Mapping[str, str]) -> str:
    """Return the directory of a set of a container; it may be a link to where its data is."""
    if choice.directory:
        return posixpath.join(choice.directory, name)
    return posixpath.join(base_directory(environ), name, choice.name)
