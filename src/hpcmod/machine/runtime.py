"""The container runtime of this machine: Apptainer, or SingularityCE."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from hpcmod.core.errors import LackingError
from hpcmod.core.which import which
from hpcmod.machine.values.site import RUNTIMES

_PATIENCE = 60.0  # seconds


def find_runtime(environ: Mapping[str, str]) -> str | None:
    """Return the runtime on PATH; None if there is none."""
    return next((path for name in RUNTIMES if (path := which(name, environ))), None)


def read_version(environ: Mapping[str, str]) -> str:
    """Return what the runtime on PATH says of its version, as `apptainer version 1.4.5`; empty if it says nothing."""
    from hpcmod.core.process import run  # a batch script only needs the runtime's name

    runtime = find_runtime(environ)
    with suppress(LackingError):
        return " ".join(run([runtime, "--version"], env=environ, timeout=_PATIENCE).stdout.split()) if runtime else ""
    return ""
