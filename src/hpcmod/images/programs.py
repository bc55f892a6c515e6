"""The container runtime: where it is, and which of its settings break a build."""

from __future__ import annotations

from collections.abc import Mapping

from hpcmod.core.errors import LackingError
from hpcmod.core.which import which

_RUNTIMES = ("apptainer", "singularity")
_HARMFUL = ("BIND", "BINDPATH", "MOUNT", "NV", "ROCM", "CONTAINALL", "CLEANENV")
"""Runtime settings that break a build, because they refer to files that are not in the image."""


def require_runtime(environ: Mapping[str, str], *, why: str) -> str:
    """Return the container runtime on PATH, which `why` needs, or raise LackingError."""
    found = next((path for name in _RUNTIMES if (path := which(name, environ))), None)
    if found is None:
        raise LackingError(
            f"{why} needs {' or '.join(_RUNTIMES)}, but none is on PATH",
            f"Load or install {_RUNTIMES[0]}; or fetch the image on a machine that has it, and copy the SIF.",
        )
    return found


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without runtime settings that break a build and variables set inside containers."""
    settings = {f"{prefix}_{name}" for prefix in ("APPTAINER", "SINGULARITY") for name in _HARMFUL}
    inside = ("APPTAINERENV_", "SINGULARITYENV_")
    return {name: value for name, value in environ.items() if name not in settings and not name.startswith(inside)}
