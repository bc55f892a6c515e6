"""How a batch script loads the module of its job, whatever shell it starts in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobModule:
    """A module as a batch script loads it."""

    name: str
    """As `module load` takes it: the full name where it is known; empty: none is loaded."""
    trees: tuple[str, ...] = ()
    """Directories for `module use`."""
    unused: tuple[str, ...] = ()
    """Directories for `module unuse`: their copy of the module would be loaded instead."""
    sha256: str = ""
    """Of the image; empty: not known."""
    source: str = ""
    """What the image was made of, with its digest; empty: not known."""
    init: str = ""
    """File that defines the `module` command where there is none; empty: not known."""
    modulecmd: str = ""
    """Program of Environment Modules behind that command, where there is no such file."""
    path: str = ""
    """Directory of the container runtime, where it is not one of the system's."""
