"""What the image's run script does with the command line of a job, where the profile starts containers by it."""

from __future__ import annotations

from pathlib import Path

from hpcmod.core.values.facts import COMMAND
from hpcmod.machine.values.site import Site


def entry_for(image: Path | None, site: Site) -> str:
    """Return what the run script does, as `ImageFacts.entry`; COMMAND if it is not used here, or not known."""
    if not image or site.launcher.verb != "run":
        return COMMAND
    from hpcmod.images import find_entry  # what reads images takes time to import

    return find_entry(image)
