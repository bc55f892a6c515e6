"""A stand-in for Lustre and its tool `lfs`, which cannot be had here: every file is on Lustre, and calls are logged."""

from __future__ import annotations

from pathlib import Path

import pytest

_LFS = """#!/bin/sh
for last; do :; done
echo "$*: $(ls -A "$last")" >> "{log}"
echo "{error}" >&2
exit {status}
"""


def pretend_lustre(monkeypatch: pytest.MonkeyPatch, place: Path, *, status: int = 0, error: str = "") -> Path:
    """Put a fake `lfs` on PATH, in a new directory, with a given exit status.

    Returns
    -------
    Path
        Log of its calls: in each line the arguments, a colon, and what was in the directory that is the last one.
    """
    place.mkdir()
    (place / "lfs").write_text(_LFS.format(log=place / "log", error=error, status=status))
    (place / "lfs").chmod(0o755)
    (place / "log").touch()
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setattr("hpcmod.core.fs.striping.find_file_system", lambda _: "lustre")
    return place / "log"
