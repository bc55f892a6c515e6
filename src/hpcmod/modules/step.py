"""Start a check as a job step, where Slurm is available."""

from __future__ import annotations

from collections.abc import Mapping

from hpcmod.core.process import run
from hpcmod.core.which import which

_STEP = ("srun", "--quiet", "--nodes=1", "--ntasks=1")
_PATIENCE = 60.0  # seconds to wait for an answer


def find_check_step(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command that runs a check as a job step; empty if Slurm is missing or does not respond."""
    program = which(_STEP[0], environ)
    if not program or run(["sinfo", "--noheader"], env=environ, timeout=_PATIENCE).status:
        return ()
    return (program, *_STEP[1:])
