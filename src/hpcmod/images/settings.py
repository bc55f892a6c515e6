"""Options for fetching images on this machine: the cache, the compression of SIFs, and the trust policy."""

from __future__ import annotations

import contextlib
import grp
import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from string import Template

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.values.compression import reads_zstd
from hpcmod.core.values.facts import architecture_name
from hpcmod.images.acquire.origin import ObtainOptions
from hpcmod.images.cache import Cache
from hpcmod.images.convert import ConvertOptions
from hpcmod.images.web.credentials import Access
from hpcmod.machine import read_version
from hpcmod.machine.values.site import Site

_PLACES = {
    "APPTAINER_CACHEDIR": "hpcmod",
    "SINGULARITY_CACHEDIR": "hpcmod",
    "XDG_CACHE_HOME": "hpcmod",
    "HOME": ".cache/hpcmod",
}
"""Variables with a directory that may hold the cache, and its path in there."""


def make_options(
    site: Site,
    environ: Mapping[str, str],
    *,
    use_cache: bool = True,
    allow_http: bool = False,
    compression: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> ObtainOptions:
    """Make the options from the site profile and the environment; `compression` overrides that of the profile.

    HPCMOD_CACHE, HPCMOD_MAX_MEMORY and the usual variables for caches are read from `environ`; child processes get all
    of it.

    Raises HpcmodError if the compressor or level is unknown, its library is missing, no cache directory can be found,
    or HPCMOD_MAX_MEMORY is not a number.
    """
    return ObtainOptions(
        architecture=architecture_name(platform.machine()),
        environ=environ,
        policy=site.images.trust,
        striping=site.images.striping,
        cache=open_cache(site, environ) if use_cache else None,
        access=Access(allow_http=allow_http, announce=cache(tell)),  # once per message
        conversion=_make_conversion(compression or site.images.compression, environ),
        tell=tell,
    )


def _make_conversion(compression: str, environ: Mapping[str, str]) -> ConvertOptions:
    options = ConvertOptions.parse(compression or ("zstd" if reads_zstd(read_version(environ)) else ""))
    megabytes = environ.get("HPCMOD_MAX_MEMORY", "")
    if not megabytes:
        return options
    if not re.fullmatch(r"[1-9][0-9]{0,8}", megabytes):
        raise BadInputError(f"HPCMOD_MAX_MEMORY is {megabytes!r}, expected a number of MB", "HPCMOD_MAX_MEMORY=2000")
    return replace(options, most_memory=int(megabytes) * 10**6)


def open_cache(site: Site, environ: Mapping[str, str]) -> Cache:
    """Open the cache: $HPCMOD_CACHE, else the site's, else the user's, beside the runtime's cache if that was moved.

    Raises LackingError if no directory can be found, or it cannot be created for its group.
    """
    directory = _cache_directory(site, environ)
    if site.images.cache_group and not environ.get("HPCMOD_CACHE") and not directory.exists():
        _make_shared(directory, site.images.cache_group)
    return Cache(directory)


def _cache_directory(site: Site, environ: Mapping[str, str]) -> Path:
    """Return the directory of the cache, which may not exist."""
    if environ.get("HPCMOD_CACHE"):
        return Path(environ["HPCMOD_CACHE"])
    if site.images.cache:
        return Path(Template(site.images.cache).safe_substitute(environ))
    for name, below in _PLACES.items():
        if environ.get(name):
            return Path(environ[name], below)
    raise LackingError("no directory for the cache: neither HOME nor HPCMOD_CACHE is set", "Set HPCMOD_CACHE.")


def _make_shared(directory: Path, group: str) -> None:
    """Create the directory of a group's cache, renamed to its final path only when the group owns it.

    Raises LackingError if the user may not, e.g. because they are not in that group.
    """
    try:
        number = grp.getgrnam(group).gr_gid
    except KeyError as err:
        raise LackingError(f"images.cache_group: unknown group {group!r}", "Fix the site profile.") from err
    partial = directory.with_name(f".{directory.name}.{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        os.chown(partial, -1, number)
        partial.chmod(0o2770)
        partial.rename(directory)
    except OSError as err:
        with contextlib.suppress(OSError):
            partial.rmdir()
        if not directory.is_dir():  # created by another process meanwhile
            raise LackingError(
                f"{directory}: cannot be created for the group {group}: {err.strerror}",
                "Ask a member of that group to create it, or set HPCMOD_CACHE to your own directory.",
            ) from err
