"""Find where the dynamic loader of a container searches: LD_LIBRARY_PATH, its cache, the default directories."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from hpcmod.compat.inspect.files import ContainerFiles
from hpcmod.compat.inspect.library_path import INJECTED, read_library_path
from hpcmod.compat.values.ld_cache import parse_ld_cache
from hpcmod.compat.values.loader import Search
from hpcmod.core.errors import BadInputError

_CACHE = "/etc/ld.so.cache"
_CACHE_LIMIT = 1 << 24
TRIPLETS = {
    "amd64": "x86_64-linux-gnu",
    "arm64": "aarch64-linux-gnu",
    "ppc64le": "powerpc64le-linux-gnu",
    "riscv64": "riscv64-linux-gnu",
}
_LOADERS = {
    "amd64": "/lib64/ld-linux-x86-64.so.2",
    "arm64": "/lib/ld-linux-aarch64.so.1",
    "ppc64le": "/lib64/ld64.so.2",
    "riscv64": "/lib/ld-linux-riscv64-lp64d.so.1",
}
"""The dynamic loader, which is always loaded already (glibc, sysdeps/unix/sysv/linux/*/ldconfig.h)."""


def find_search(files: ContainerFiles, architecture: str, first: Sequence[str] = ()) -> tuple[Search, bool]:
    """Find where the loader of a container searches, and whether all of LD_LIBRARY_PATH is known.

    `first`: Directories searched before those of the image.
    """
    own, known = read_library_path(files)
    triplet = TRIPLETS.get(architecture, "")
    is_multiarch = _is_multiarch(files, triplet)
    named = (f"/lib/{triplet}", f"/usr/lib/{triplet}") if is_multiarch else ("/lib64", "/usr/lib64")
    return Search(
        library_path=(*first, *own, INJECTED),
        cache=(*_loader(architecture), *_read_cache(files)),
        defaults=(*named, "/lib", "/usr/lib"),
        lib=f"lib/{triplet}" if is_multiarch else "lib64",
        platform=triplet.partition("-")[0] or architecture,
    ), known


def _is_multiarch(files: ContainerFiles, triplet: str) -> bool:
    """Return whether libc is in a multiarch directory; the directory alone may exist for another reason."""
    places = (f"/lib/{triplet}", f"/usr/lib/{triplet}") if triplet else ()
    return any(files.real(place) for place in places) and not any(
        files.real(f"{place}/libc.so.6") for place in ("/lib64", "/usr/lib64")
    )


def _loader(architecture: str) -> tuple[tuple[str, str], ...]:
    path = _LOADERS.get(architecture, "")
    return ((posixpath.basename(path), path),) if path else ()


def _read_cache(files: ContainerFiles) -> tuple[tuple[str, str], ...]:
    try:
        return parse_ld_cache(files.read_bytes(_CACHE, _CACHE_LIMIT))
    except BadInputError:  # without a cache, the loader searches the default directories
        return ()
