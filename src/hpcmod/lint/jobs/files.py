"""Read batch scripts from disk, safely for any path."""

from __future__ import annotations

import re
from pathlib import Path

from hpcmod.core.errors import BadInputError, explain_os_error
from hpcmod.core.fs.reading import UnusableFileError, read_file

LARGEST = 1 << 18
"""Bytes; Slurm accepts up to 4 MiB by default (slurm.conf(5), max_script_size), but no one writes that much."""
SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".job", ".batch")
_OTHERS = (".eb", ".yaml", ".toml", ".ftl", ".tpl", ".tmpl", ".template", ".j2", ".jinja", ".in")  # not scripts
_FIRST_LINES = re.compile(rb"#!.*sh\b|(?:.*\n)*?#SBATCH ")
_LONGEST_LINE = 1 << 17  # bytes; Linux accepts 128 KiB for one argument of a command line


def is_batch_script(path: Path) -> bool:
    """Return whether a file is a batch script: by its suffix, or by its first lines."""
    if path.suffix in SUFFIXES:
        return True
    if path.suffix in _OTHERS or not path.is_file():
        return False
    with path.open("rb") as file:
        return _FIRST_LINES.match(file.read(4096)) is not None


def read_batch_file(path: Path) -> str:
    """Return the text of a batch script, with carriage returns: they are among the mistakes.

    Raises BadInputError if the file is not a regular file, too large for sbatch, or not text.
    """
    try:
        data = read_file(path, LARGEST)
    except UnusableFileError as err:
        raise BadInputError(f"{path}: {err.strerror}", "Give a batch script: hpcmod lint train.sh") from err
    except OSError as err:
        raise explain_os_error(err) from err
    if max(map(len, data.split(b"\n"))) > _LONGEST_LINE:
        raise BadInputError(f"{path}: a line is longer than {_LONGEST_LINE >> 10} KiB", "Read such data from a file.")
    if b"\0" in data:
        raise BadInputError(f"{path}: not text: byte 0 at position {data.index(0)}", "Give a batch script.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:  # in a comment, most often: bash reads bytes
        return data.decode("latin-1")
