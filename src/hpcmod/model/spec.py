"""What an easyconfig asks for, as one value, checked whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hpcmod.errors import BadInputError
from hpcmod.model.bind import Bind
from hpcmod.model.site import INSTALL_MODES
from hpcmod.model.text import check_plain

COMMAND_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
"""A name safe as a file in bin/: no slash, no leading dot or dash."""


@dataclass(frozen=True)
class InstallSpec:
    """One installation, as asked for."""

    name: str
    module: str
    """Short module name, e.g. PyTorch/2.7.1-rocm-6.2.4-singularity."""
    variable: str
    """Name as it ends variables, e.g. PYTORCH of SIFPYTORCH; EasyBuild's rule: upper case, `-` becomes `MIN`."""
    root: str
    """Root of the installation, an absolute path."""
    image: str
    """File name of the SIF."""
    easyconfig: str
    """File name of the easyconfig, for the cure in messages."""
    found_at: str = ""
    """Where the image was found, if it was: the last place the module looks, for a site may keep images there."""
    description: str = ""
    homepage: str = ""
    install_mode: str = "auto"
    binds: tuple[Bind, ...] = ()
    """Added to the site's."""
    commands: tuple[str, ...] = ()
    """Commands to wrap; empty: the well-known ones that the image has."""

    def __post_init__(self) -> None:
        """Refuse what would be run or split where it is used: these texts become values of the user's environment."""
        for what in ("name", "module", "root", "image", "easyconfig", "found_at"):
            check_plain(getattr(self, what), what)
        if ":" in self.root:
            raise BadInputError(
                f"the installation's directory {self.root!r} holds a colon, which ends a path in a bind",
                "Choose another one: eb --installpath=DIRECTORY ...",
            )


def parse_commands(names: Sequence[str]) -> tuple[str, ...]:
    """Check the names of commands to wrap; all faults at once."""
    bad = [name for name in names if not COMMAND_NAME.fullmatch(name)]
    if bad:
        raise BadInputError(
            f"wrapped_commands: not the names of commands: {', '.join(map(repr, bad))}",
            "Name programs of the image as they are typed, without directories.",
        )
    return tuple(dict.fromkeys(names))


def parse_install_mode(word: str) -> str:
    """Check the way an image is to be installed."""
    if word not in INSTALL_MODES:
        raise BadInputError(f"install_mode: {word!r} is none of {', '.join(INSTALL_MODES)}", "Use one of these.")
    return word
