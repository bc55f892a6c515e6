"""What is done with a batch script: tried by Slurm, written to a file, submitted."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from hpcmod.errors import BadInputError, CheckFailedError, LackingError
from hpcmod.fs.reading import UnusableFileError, read_text
from hpcmod.process import run, which

MARK = "Written by `hpcmod job`"
"""In the first comment of every batch script of ours."""

_LARGEST = 4 << 20  # bytes of a batch script; what Slurm takes by default
_UNREACHABLE = re.compile(r"Unable to contact slurm controller|Could not establish a configuration source")
_PATIENCE = 60.0  # seconds for a Slurm that does not answer


def test_script(text: str, *, must: bool, options: Sequence[str] = ()) -> str:
    """Let Slurm say whether and when it could run a script; empty where there is no Slurm."""
    if which("sbatch", os.environ) is None:
        return ""
    try:
        done = run(["sbatch", "--test-only", *options], stdin=text, timeout=_PATIENCE)
    except LackingError as err:
        if must:
            raise
        return err.message
    said = " ".join(re.sub(r"^(?:sbatch: )?(?:error: )?", "", line) for line in done.stderr.splitlines())
    if done.status and must and _UNREACHABLE.search(said):
        raise LackingError(
            f"Slurm does not answer: {said}", "Try again later, or from a login node; nothing was submitted."
        )
    if done.status and must:
        raise CheckFailedError(f"Slurm would not run it: {said}", "Change what is asked for; nothing was submitted.")
    return f"sbatch --test-only: {said}"


def save_script(text: str, path: Path | None) -> Path | None:
    """Write a script under its name, unless there is none; one that somebody else wrote is not touched.

    Raises
    ------
    BadInputError
        If the name cannot be used.
    """
    from hpcmod.fs.tree import write_file

    if path is None:
        return None
    if not path.parent.is_dir():
        raise BadInputError(f"there is no directory {path.parent}", f"mkdir -p {path.parent}")
    if path.exists() and MARK not in _written(path):
        raise BadInputError(f"{path} is there, and `hpcmod job` did not write it", "Name another file: -o FILE")
    write_file(path, text)
    return path


def _written(path: Path) -> str:
    try:
        return read_text(path, _LARGEST, errors="replace")
    except UnusableFileError as err:
        raise BadInputError(f"{path}: {err.strerror}", "Name another file: -o FILE") from err


def submit_script(path: Path, options: Sequence[str] = ()) -> str:
    """Submit a batch script, and return the number of the job; options are those of sbatch.

    Raises
    ------
    CheckFailedError
        If Slurm refuses it.
    """
    done = run(["sbatch", "--parsable", *options, str(path)])
    if done.status:
        raise CheckFailedError(f"sbatch refused {path}: {done.stderr.strip()}", "Change what is asked for.")
    return done.stdout.strip().partition(";")[0]
