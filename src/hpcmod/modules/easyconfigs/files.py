"""Recipe files: find them below a directory, and read their text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpcmod.core.errors import BadInputError, NotFoundError, explain_os_error

_LARGEST = 1 << 20  # bytes; the longest easyconfig of LUMI has 40,000, and so has the longest recipe of singularity-hpc


def find_recipes(path: Path, suffix: str) -> Iterator[Path]:
    """Yield a file, or all files below a directory whose names end so, sorted."""
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.name.endswith(suffix) and file.is_file())
    else:
        yield path


def read_recipe(path: Path) -> str:
    """Return the text of a recipe.

    Raises HpcmodError if it cannot be read, is too large for a recipe, or is not text.
    """
    if not path.exists():
        raise NotFoundError(f"{path}: no such file", "Give the path of its file.")
    try:
        if not path.is_file():  # reading from a pipe would block
            raise BadInputError(f"{path}: not a regular file", "")
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as err:
        raise explain_os_error(err) from err
    if len(data) > _LARGEST:
        raise BadInputError(f"{path}: too large for a recipe", "")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise BadInputError(f"{path}: is not text: {err.reason} at byte {err.start}", "Save it as UTF-8.") from err
