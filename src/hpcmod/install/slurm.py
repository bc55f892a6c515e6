"""Run Slurm's programs: test, submit, watch and cancel jobs, read their scripts, and list srun's MPI types.

No other module runs them; a test checks that. Batch scripts and steps are made in model/jobs and render/jobscript.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpcmod.errors import CheckFailedError, HpcmodError, LackingError
from hpcmod.process import run, which

MPI_TYPES = ("pmix", "pmix_v3", "pmix_v4", "pmix_v5", "pmi2", "cray_shasta")
"""Types that `srun --mpi=list` may print, except those that no current MPI needs."""

NO_ANSWER = "?"
"""Returned for a field of a job if Slurm does not answer."""

_UNREACHABLE = re.compile(r"Unable to contact slurm controller|Could not establish a configuration source")
_PATIENCE = 60.0  # seconds to wait for an answer from Slurm
_SHORT_PATIENCE = 30.0


def test_script(text: str, *, must: bool, options: Sequence[str] = ()) -> str:
    """Return the answer of `sbatch --test-only`: whether and when a script could run; empty without Slurm.

    Parameters
    ----------
    must
        Whether to raise an error if Slurm does not answer or would not run it.

    Raises
    ------
    LackingError
        If Slurm does not answer, and it must.
    CheckFailedError
        If Slurm would not run it, and it must.
    """
    if which("sbatch", os.environ) is None:
        return ""
    try:
        done = run(["sbatch", "--test-only", *options], stdin=text, timeout=_PATIENCE)
    except LackingError as err:
        if must:
            raise
        return err.message
    answer = " ".join(re.sub(r"^(?:sbatch: )?(?:error: )?", "", line) for line in done.stderr.splitlines())
    if done.status and must and _UNREACHABLE.search(answer):
        raise LackingError(
            f"Slurm does not answer: {answer}", "Try again later, or from a login node; nothing was submitted."
        )
    if done.status and must:
        raise CheckFailedError(f"Slurm would not run it: {answer}", "Change the options; nothing was submitted.")
    return f"sbatch --test-only: {answer}"


def submit_script(path: Path, options: Sequence[str] = ()) -> str:
    """Submit a batch script with sbatch options, and return the job ID.

    Raises
    ------
    CheckFailedError
        If Slurm refuses it.
    """
    done = run(["sbatch", "--parsable", *options, str(path)])
    if done.status:
        raise CheckFailedError(f"sbatch refused {path}: {done.stderr.strip()}", "Change the options or the script.")
    return done.stdout.strip().partition(";")[0]


def read_script_of_job(number: str) -> str:
    """Return the batch script of a job that Slurm remembers, from its first line; empty if it does not."""
    commands = (["scontrol", "write", "batch_script", number, "-"], ["sacct", "--batch-script", "--jobs", number])
    for argv in commands:
        output = run(argv).stdout if which(argv[0], os.environ) else ""
        if "#!" in output:
            return output[output.index("#!") :]
    return ""


def query_job(number: str, field: str) -> str:
    """Return a field of a job in Slurm's queue, as `squeue --format` names it; NO_ANSWER if Slurm does not answer.

    Empty if the job is no longer in the queue.
    """
    found = run(["squeue", "--noheader", "--jobs", number, f"--format={field}"])
    return found.stdout.strip() if found.status == 0 or "Invalid job id" in found.stderr else NO_ANSWER


def cancel_job(number: str) -> None:
    """Cancel a job; nothing happens if it has ended."""
    run(["scancel", number])


def responding_srun(environ: Mapping[str, str]) -> str:
    """Return the path of srun if Slurm responds; else empty."""
    srun = which("srun", environ)
    return srun if srun and run(["sinfo", "--noheader"], env=environ, timeout=_PATIENCE).status == 0 else ""


def find_mpi_types(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the types of MPI that srun offers; None if Slurm is missing or does not respond."""
    srun = which("srun", environ)
    if not srun:
        return None
    try:
        done = run([srun, "--mpi=list"], env=environ, timeout=_SHORT_PATIENCE)
    except HpcmodError:
        return None
    answer = done.stdout + done.stderr
    return None if done.status else tuple(kind for kind in MPI_TYPES if re.search(rf"\b{kind}\b", answer))
