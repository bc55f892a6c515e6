"""The host's libraries as seen by its dynamic loader: ELF files, the loader cache and the default directories."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from hpcmod.compat.values.elf import ElfFile, parse_elf
from hpcmod.compat.values.ld_cache import parse_ld_cache
from hpcmod.compat.values.loader import Search
from hpcmod.core.errors import BadInputError

_CACHE = "/etc/ld.so.cache"


class HostFiles:
    """ELF files of this machine, each read once; see hpcmod.compat.values.loader.Files."""

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        """Errors in files that would stop the loader (`invalid ELF header`, `file too short`), by path."""
        self._known: dict[str, ElfFile | None] = {}

    def elf(self, path: str) -> ElfFile | None:
        """Return the data of an ELF file; None if it does not exist, is not readable, or is recorded in `faults`."""
        if path not in self._known:
            try:
                self._known[path] = _read_elf(path)
            except BadInputError as err:
                self.faults[path], self._known[path] = err.message, None
        return self._known[path]

    def real(self, path: str) -> str:
        """Return a path with all links resolved."""
        return os.path.realpath(path)


def _read_elf(path: str) -> ElfFile | None:
    try:
        if not Path(path).is_file():
            return None
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            found = parse_elf(lambda offset, length: os.pread(file.fileno(), length, offset), size)
    except PermissionError:  # on the file or a directory: the loader continues searching
        return None
    if found is None:
        raise BadInputError("not an ELF file")
    return found


def read_search(environ: Mapping[str, str]) -> Search:
    """Return where this machine's loader searches.

    Parameters
    ----------
    environ
        LD_LIBRARY_PATH is taken from it.

    Notes
    -----
    The default directories are compiled into the loader: on Debian and Ubuntu they are named after the architecture,
    elsewhere lib64. A file of another architecture found there is skipped.
    """
    triplet = f"{platform.machine()}-linux-gnu"
    is_multiarch = Path("/usr/lib", triplet).is_dir()
    named = (f"/lib/{triplet}", f"/usr/lib/{triplet}") if is_multiarch else ("/lib64", "/usr/lib64")
    return Search(
        # without empty entries, which would mean the current directory
        library_path=tuple(filter(None, re.split("[:;]", environ.get("LD_LIBRARY_PATH", "")))),
        cache=_read_cache(),
        defaults=(*named, "/lib", "/usr/lib"),
        lib=f"lib/{triplet}" if is_multiarch else "lib64",
        platform=platform.machine(),
    )


def _read_cache() -> tuple[tuple[str, str], ...]:
    try:
        return parse_ld_cache(Path(_CACHE).read_bytes())
    except FileNotFoundError:
        return ()
