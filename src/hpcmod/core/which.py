"""Find a program on PATH."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from hpcmod.core.values.text import without_relative_entries


def which(program: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a program on an environment's PATH; None if not found.

    Relative entries of PATH are ignored, because they depend on the working directory. Without any other, the system's
    directories are searched.
    """
    return shutil.which(program, path=without_relative_entries(environ.get("PATH", "")))
