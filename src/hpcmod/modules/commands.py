"""Check that the programs behind a module's commands exist in its image."""

from __future__ import annotations

from pathlib import Path

from hpcmod.core.errors import NotFoundError
from hpcmod.core.values.text import listed
from hpcmod.images import Sif
from hpcmod.machine.values.tables import Binds
from hpcmod.modules.values.plan import RUNSCRIPTS_IN_CONTAINER
from hpcmod.modules.values.spec import Commands

_MOST_NAMED = 10


def find_missing_programs(commands: Commands, image: Path, binds: Binds) -> dict[str, str]:
    """Return the commands whose program is missing from an image, and these programs.

    Programs below a bind, or below a directory of the image's PATH that only a bind can provide, count as present.
    """
    programs = {name: words[0] for name, words in commands}
    if not programs:
        return {}
    commands_of_image = Sif(image).commands([path for path in programs.values() if path.startswith("/")])
    bound = (RUNSCRIPTS_IN_CONTAINER, *(bind.place for group in binds for bind in group), *commands_of_image.absent)
    return {
        name: program
        for name, program in programs.items()
        if program not in commands_of_image.programs
        and program not in commands_of_image.names
        and not any(f"{program}/".startswith(f"{place}/") for place in bound)
    }


def check_wrapped_commands(commands: Commands, image: Path, binds: Binds) -> None:
    """Check that an image has the programs of all wrapped commands.

    Raises NotFoundError if programs are missing, with the first of them.
    """
    missing = find_missing_programs(commands, image, binds)
    if missing:
        each = [name if name == program else f"{name} ({program})" for name, program in missing.items()]
        raise NotFoundError(
            f"wrapped_commands: {image.name} lacks {listed(each, _MOST_NAMED)}",
            "Remove them from wrapped_commands, or give the path of each program in the image: {'NAME': ['/PATH']}.",
        )
