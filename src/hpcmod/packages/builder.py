"""What building a state needs of this machine."""

from __future__ import annotations

import getpass
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.clock import now_text
from hpcmod.core.errors import LackingError
from hpcmod.machine import find_runtime
from hpcmod.machine.values.site import HOST_PYTHON
from hpcmod.modules import host_environment
from hpcmod.packages.values.plan import WORK

_DEFAULT_TEMPORARY = "/tmp"  # noqa: S108 - node-local on every Linux; TMPDIR names a better place
_NOT_PASSED = ("SINGULARITY", "APPTAINER")
_PIP_NOT_PASSED = re.compile(
    r"PIP_(?:TARGET|PREFIX|ROOT|USER|REQUIRE_VIRTUALENV|CONSTRAINT|REQUIREMENT|EDITABLE|REPORT|DRY_RUN|PYTHON|SRC"
    r"|IGNORE_INSTALLED|FORCE_REINSTALL|NO_DEPS|ONLY_BINARY|NO_BINARY)"
)
"""Variables that would make pip install other packages than planned, or in another place."""


@dataclass(frozen=True)
class Builder:
    """Tools and directories of this machine that building a state needs."""

    runtime: str
    """Path of the container runtime."""
    environ: Mapping[str, str]
    temporary: Path
    """Node-local directory for pip's files."""
    now: str
    user: str
    tell: Callable[[str], None] = lambda _: None
    """Told what takes long."""


def container_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the runtime: pip's settings pass, the host's Python and other containers do not."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(_NOT_PASSED) and not _PIP_NOT_PASSED.fullmatch(name) and name not in HOST_PYTHON
    }
    inside = {"PYTHONNOUSERSITE": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    inside["TMPDIR"] = posixpath.join(WORK, "tmp")
    prefixed = {f"{runtime}ENV_{name}": value for runtime in _NOT_PASSED for name, value in inside.items()}
    return {**kept, **prefixed}


def make_builder(
    environ: Mapping[str, str], *, starts: bool = True, tell: Callable[[str], None] = lambda _: None
) -> Builder:
    """Return the tools and directories of this machine that building a state needs.

    `starts`: Whether a container is started.

    Raises LackingError if there is no container runtime, or no directory for temporary files.
    """
    environ = host_environment(environ)  # a module's `singularity` adds the module's binds
    runtime = find_runtime(environ)
    if runtime is None and starts:
        raise LackingError(
            "no container runtime on this machine, and pip runs in the container",
            "Add apptainer or singularity to PATH, or run this on a node that has one.",
        )
    temporary = Path(environ.get("TMPDIR") or _DEFAULT_TEMPORARY)
    if not temporary.is_dir():
        raise LackingError(f"{temporary}: no such directory for temporary files", "Set TMPDIR to a directory.")
    return Builder(runtime or "", environ, temporary, now_text(), getpass.getuser(), tell)
