"""Test a batch script with Slurm, write it to a file, submit it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from hpcmod.errors import BadInputError, CheckFailedError, LackingError
from hpcmod.fs.reading import UnusableFileError, read_text
from hpcmod.process import run, which

MARK = "Written by `hpcmod job`"
"""Text in the first comment of every batch script that hpcmod writes."""

_LARGEST = 4 << 20  # maximum size of a batch script in bytes; Slurm's default limit
_UNREACHABLE = re.compile(r"Unable to contact slurm controller|Could not establish a configuration source")
_PATIENCE = 60.0  # seconds to wait for an answer from Slurm


def test_script(text: str, *, must: bool, options: Sequence[str] = ()) -> str:
    """Return the answer of `sbatch --test-only`: whether and when a script could run; empty without Slurm."""
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


def save_script(text: str, path: Path | None) -> Path | None:
    """Write a script to a file, if a path is given; a file that hpcmod did not write is not replaced.

    Raises
    ------
    BadInputError
        If the path cannot be used.
    """
    from hpcmod.fs.tree import write_file

    if path is None:
        return None
    if not path.parent.is_dir():
        raise BadInputError(f"{path.parent}: no such directory", f"mkdir -p {path.parent}")
    if path.exists() and MARK not in _written(path):
        raise BadInputError(f"{path} exists and was not written by `hpcmod job`", "Choose another file: -o FILE")
    write_file(path, text)
    return path


def _written(path: Path) -> str:
    try:
        return read_text(path, _LARGEST, errors="replace")
    except UnusableFileError as err:
        raise BadInputError(f"{path}: {err.strerror}", "Choose another file: -o FILE") from err


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
