"""What `singularity run` does with a command line, read from the image's run script without starting it."""

from __future__ import annotations

import re
import shlex

from hpcmod.core.values.facts import COMMAND, NO_ENTRY, OWN
from hpcmod.images.squashfs.reader import Squashfs

_RUNSCRIPT = "/.singularity.d/runscript"
_NONE = "There is no runscript defined for this container"
_STARTS = re.compile(r'^[ \t]*(?:exec[ \t]+)?"?(?:\$\{?[@*]\}?)"?[ \t;]*$', re.MULTILINE)
"""A line that starts the command line."""
_ENTRYPOINTS = (re.compile(r"^OCI_ENTRYPOINT='(.*)'$", re.MULTILINE), re.compile(r'^set -- (.*) "\$@"$', re.MULTILINE))
"""The entry point of an OCI image, as Apptainer and hpcmod write it into the run script."""


def read_entry(squashfs: Squashfs) -> str:
    """Return what the run script of an image does with a command line, as `ImageFacts.entry`."""
    script = squashfs.text_of(_RUNSCRIPT)
    if not script.strip() or _NONE in script:
        return NO_ENTRY
    entries = [match[1] for form in _ENTRYPOINTS if (match := form.search(script)) and match[1]]
    if not entries:
        return COMMAND if _STARTS.search(script) else OWN
    try:
        words = shlex.split(entries[0].replace('\\"', '"'))
    except ValueError:
        return OWN
    scripts = (squashfs.text_of(word) for word in words if word.startswith("/"))
    # `tini --` and the like start what follows
    return COMMAND if words[-1:] == ["--"] or any(map(_STARTS.search, scripts)) else OWN
