"""The host's libraries as seen by its dynamic loader: ELF files, the loader cache and the default directories."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path

from hpcmod.compat.inspect.files import ContainerFiles
from hpcmod.compat.values.ld_cache import parse_ld_cache
from hpcmod.compat.values.loader import Search

_CACHE = "/etc/ld.so.cache"


def files_of_host() -> ContainerFiles:
    """Return the files of this machine, as if all of them were bound."""
    return ContainerFiles(None, [("/", "/")])


def read_search(environ: Mapping[str, str]) -> Search:
    """Return where this machine's loader searches.

    `environ`: LD_LIBRARY_PATH is taken from it.

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
