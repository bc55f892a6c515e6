"""Where the packages are that a user added to an installation."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.modules.values.install_record import PACKED, USER_SOFTWARE, OwnPackages
from hpcmod.modules.values.place import CHOICE_VARIABLE, STATES, active_link, parse_choice, set_directory, state_file


def find_own_state(place: OwnPackages, environ: Mapping[str, str]) -> str:
    """Return the path of the state of the user's packages that a module uses; empty if there is none.

    Raises BadInputError or NotFoundError if the user chose packages that do not exist: nothing would start with them.
    """
    text = environ.get(CHOICE_VARIABLE, "")
    choice = parse_choice(text)
    if choice is None:
        return ""
    directory = Path(set_directory(place.name, choice, environ))
    path = directory / (active_link(place.tag) if choice.state is None else state_file(choice.state, place.tag))
    if path.is_file():
        return os.path.realpath(path)
    known = (directory / STATES).is_dir() or (choice.directory and any(Path(choice.directory).glob(f"*/{STATES}")))
    if choice.state is not None or (text and not known):
        raise NotFoundError(
            f"{CHOICE_VARIABLE}={text}: you have no such packages for {place.name}",
            f"See: hpcmod packages {place.name} --history; to run without your packages: {CHOICE_VARIABLE}=none",
        )
    return ""


def find_packages(root: Path, place: OwnPackages | None, environ: Mapping[str, str]) -> Path:
    """Return the file or directory with the packages that a user added to an installation, which may not exist.

    That is the active state of the chosen set, else the one of the installation itself.
    """
    with contextlib.suppress(BadInputError, NotFoundError):
        state = find_own_state(place, environ) if place else ""
        if state:
            return Path(state)
    return root / PACKED if (root / PACKED).is_file() else root / USER_SOFTWARE
