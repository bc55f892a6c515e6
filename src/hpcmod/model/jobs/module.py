"""How a batch script loads the job's module, whatever shell it starts in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobModule:
    """A module as a batch script loads it."""

    name: str
    """Argument of `module load`: the full name if known; empty: no module is loaded."""
    trees: tuple[str, ...] = ()
    """Directories for `module use`."""
    unused: tuple[str, ...] = ()
    """Directories for `module unuse`: their copy of the module would otherwise be loaded."""
    sha256: str = ""
    """sha256 of the image; empty: not known."""
    source: str = ""
    """Source of the image, with its digest; empty: not known."""
    init: str = ""
    """File that defines the `module` command if the shell lacks it; empty: not known."""
    modulecmd: str = ""
    """Program of Environment Modules behind the `module` command, if there is no such file."""
    path: str = ""
    """Directory of the container runtime, if it is not a system directory."""
