"""What building a state needs of this machine."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmod.model.packages.plan import WORK
from hpcmod.model.site import HOST_PYTHON

_NOT_PASSED = ("SINGULARITY", "APPTAINER")
_PIP_NOT_PASSED = frozenset(
    f"PIP_{name}"
    for name in (
        *("TARGET", "PREFIX", "ROOT", "USER", "REQUIRE_VIRTUALENV", "CONSTRAINT", "REQUIREMENT", "EDITABLE", "REPORT"),
        *("DRY_RUN", "IGNORE_INSTALLED", "FORCE_REINSTALL", "NO_DEPS", "ONLY_BINARY", "NO_BINARY", "PYTHON", "SRC"),
    )
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


def container_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the runtime: pip's settings pass, the host's Python and other containers do not."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(_NOT_PASSED) and name not in _PIP_NOT_PASSED and name not in HOST_PYTHON
    }
    inside = {"PYTHONNOUSERSITE": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    inside["TMPDIR"] = posixpath.join(WORK, "tmp")
    prefixed = {f"{runtime}ENV_{name}": value for runtime in _NOT_PASSED for name, value in inside.items()}
    return {**kept, **prefixed}
