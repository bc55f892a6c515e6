"""Run the container runtime: find it, pull from a library."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpcmod.core.errors import HpcmodError, LackingError
from hpcmod.core.process import call
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.which import which

RUNTIMES = ("apptainer", "singularity")
_HARMFUL = ("BIND", "BINDPATH", "MOUNT", "NV", "ROCM", "CONTAINALL", "CLEANENV")
"""Runtime settings that break a build, because they refer to files that are not in the image."""


def find_program(names: Sequence[str], environ: Mapping[str, str], *, why: str) -> str:
    """Return the first of these programs that is on PATH.

    Raises LackingError if none is on PATH.
    """
    found = next((path for name in names if (path := which(name, environ))), None)
    if found is None:
        raise LackingError(
            f"{why} needs {' or '.join(names)}, but none is on PATH",
            f"Load or install {names[0]}; or fetch the image on a machine that has it, and copy the SIF.",
        )
    return found


def pull_from_library(reference: ImageReference, out: Path, environ: Mapping[str, str]) -> None:
    """Pull a SIF from a library with the container runtime.

    Raises LackingError if there is no runtime on PATH, and HpcmodError if the runtime fails; its own message is on
    stderr.
    """
    runtime = find_program(RUNTIMES, environ, why=f"{reference.canonical}: this kind of image")
    argv = [runtime, "pull", "--force", os.fspath(out), reference.canonical]
    status = call(argv, env=without_settings(environ))
    if status:
        raise HpcmodError(
            f"{Path(runtime).name} pull failed with status {status}: {reference.canonical}",
            "See its output above. Run it manually: " + " ".join(argv),
        )


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without runtime settings that break a build and variables set inside containers."""
    settings = {f"{prefix}_{name}" for prefix in ("APPTAINER", "SINGULARITY") for name in _HARMFUL}
    inside = ("APPTAINERENV_", "SINGULARITYENV_")
    return {name: value for name, value in environ.items() if name not in settings and not name.startswith(inside)}
