"""The host's libraries as its dynamic loader finds them: files read as ELF, its cache and its default directories."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from hpcmod.errors import BadInputError
from hpcmod.model.libraries.elf import ElfFile, parse_elf
from hpcmod.model.libraries.ld_cache import parse_ld_cache
from hpcmod.model.libraries.loader import Search

_CACHE = "/etc/ld.so.cache"


class HostFiles:
    """ELF files of this machine, each read once; see hpcmod.model.libraries.loader.Files."""

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        """What is wrong with files that the loader would stop at (`invalid ELF header`, `file too short`), by path."""
        self._known: dict[str, ElfFile | None] = {}

    def elf(self, path: str) -> ElfFile | None:
        """Return what an ELF file says; None if there is none, or it may not be read, or is noted in `faults`."""
        if path not in self._known:
            try:
                self._known[path] = _read_elf(path)
            except BadInputError as err:
                self.faults[path], self._known[path] = err.message, None
        return self._known[path]

    def real(self, path: str) -> str:
        """Return a path with all links followed."""
        return os.path.realpath(path)


def _read_elf(path: str) -> ElfFile | None:
    try:
        if not Path(path).is_file():
            return None
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            found = parse_elf(lambda offset, length: os.pread(file.fileno(), length, offset), size)
    except PermissionError:  # of the file or of a directory: the loader goes on looking
        return None
    if found is None:
        raise BadInputError("no ELF file")
    return found


def read_search(environ: Mapping[str, str], *, hwcaps: tuple[str, ...] = ()) -> Search:
    """Read where this machine's loader looks.

    Parameters
    ----------
    environ
        LD_LIBRARY_PATH is read from it.
    hwcaps
        Levels of the processor to look for libraries of, the best first. None: libraries that run on every node.

    Notes
    -----
    The default directories are compiled into the loader: in Debian and Ubuntu named after the architecture, elsewhere
    lib64. A file of another architecture found there is passed over.
    """
    triplet = f"{platform.machine()}-linux-gnu"
    is_multiarch = Path("/usr/lib", triplet).is_dir()
    named = (f"/lib/{triplet}", f"/usr/lib/{triplet}") if is_multiarch else ("/lib64", "/usr/lib64")
    return Search(
        library_path=_split(environ.get("LD_LIBRARY_PATH", "")),
        cache=_read_cache(hwcaps),
        defaults=(*named, "/lib", "/usr/lib"),
        hwcaps=hwcaps,
        lib=f"lib/{triplet}" if is_multiarch else "lib64",
        platform=platform.machine(),
    )


def _split(value: str) -> tuple[str, ...]:
    """Split LD_LIBRARY_PATH: an empty entry would be the directory where somebody stands, and is left out."""
    return tuple(entry for entry in re.split("[:;]", value) if entry)


def _read_cache(hwcaps: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    try:
        return parse_ld_cache(Path(_CACHE).read_bytes(), hwcaps)
    except FileNotFoundError:
        return ()
