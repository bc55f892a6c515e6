"""Where the packages are that a user added to an installation."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from hpcmod.core.errors import BadInputError
from hpcmod.modules.values.install_record import PACKED, USER_SOFTWARE, OwnPackages
from hpcmod.modules.values.place import CHOICE_VARIABLE, active_link, parse_choice, set_directory, state_file


def find_packages(root: Path, place: OwnPackages | None, environ: Mapping[str, str]) -> Path:
    """Return the file or directory with the packages that a user added to an installation, which may not exist.

    That is the active state of the chosen set, else the one of the installation itself.
    """
    with contextlib.suppress(BadInputError):
        choice = parse_choice(environ.get(CHOICE_VARIABLE, "")) if place else None
        if place and choice:
            state = active_link(place.tag) if choice.state is None else state_file(choice.state, place.tag)
            path = Path(set_directory(place.name, choice, environ), state)
            if path.is_file():
                return path
    return root / PACKED if (root / PACKED).is_file() else root / USER_SOFTWARE
