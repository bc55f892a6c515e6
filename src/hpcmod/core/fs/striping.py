"""Over how many servers Lustre distributes the files of a directory, set with its tool `lfs`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hpcmod.core.errors import LackingError
from hpcmod.core.fs.mounts import find_file_system
from hpcmod.core.process import run

_LUSTRE = "lustre"
_TIMEOUT = 5.0  # seconds; a slow server must not delay the work


def set_layout(directory: Path, options: str, tell: Callable[[str], None]) -> None:
    """Choose how Lustre distributes files that will be created in a directory; elsewhere than on Lustre, do nothing.

    `options`: Options of `lfs setstripe`, separated by blanks; empty: do nothing.
    `tell`: Called with the reason if that failed: the files then have the layout of the file system.
    """
    if not options or find_file_system(directory) != _LUSTRE:
        return
    try:
        done = run(["lfs", "setstripe", *options.split(), str(directory)], timeout=_TIMEOUT)
        fault = "" if done.status == 0 else done.stderr.strip() or f"status {done.status}"
    except LackingError as err:
        fault = err.message
    if fault:
        tell(f"the image gets the default layout of Lustre, because lfs setstripe {options} failed: {fault}")
