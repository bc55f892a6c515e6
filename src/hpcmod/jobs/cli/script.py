"""Write a batch script to a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.core.cli.output import tell
from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.reading import UnusableFileError, read_text

if TYPE_CHECKING:
    from hpcmod.jobs.values.job import JobPlan

MARK = "Written by `hpcmod job`"
"""Text in the first comment of every batch script that hpcmod writes."""

LARGEST = 4 << 20
"""Maximum size of a batch script in bytes; Slurm's default limit."""


@dataclass(frozen=True)
class RepeatedScript:
    """With --rerun: the script of an earlier job."""

    file: Path | None
    """Where it is; null: not written."""
    job: str | None
    """Number of the submitted job."""
    test: str | None
    """What Slurm says of the script; null: it was not tested."""
    script: str


@dataclass(frozen=True)
class WrittenScript(RepeatedScript):
    """The batch script."""

    plan: JobPlan


def save_script(text: str, path: Path | None) -> Path | None:
    """Write a script to a file, if a path is given; a file that hpcmod did not write is not replaced.

    A script with another text, which its user may have edited, is kept: FILE~.

    Raises BadInputError if the path cannot be used.
    """
    from hpcmod.core.fs.tree import write_file

    if path is None:
        return None
    if not path.parent.is_dir():
        raise BadInputError(f"{path.parent}: no such directory", f"mkdir -p {path.parent}")
    earlier = _written(path) if path.exists() else text
    if MARK not in earlier:
        raise BadInputError(f"{path} exists and was not written by `hpcmod job`", "Choose another file: -o FILE")
    if earlier != text:
        path.replace(f"{path}~")
        tell(f"replaced {path}; the earlier one is {path}~")
    write_file(path, text)
    return path


def _written(path: Path) -> str:
    try:
        return read_text(path, LARGEST, errors="replace")
    except UnusableFileError as err:
        raise BadInputError(f"{path}: {err.strerror}", "Choose another file: -o FILE") from err
