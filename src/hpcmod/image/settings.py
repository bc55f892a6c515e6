"""How images are got on this machine: where the cache is, how SIFs are compressed, how they must be verified."""

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

from hpcmod.errors import BadInputError, LackingError
from hpcmod.image.cache import Cache
from hpcmod.image.convert import ConvertOptions
from hpcmod.image.fetch_sif import ObtainOptions
from hpcmod.image.sif_format import architecture_name
from hpcmod.image.squashfs.codecs import codec
from hpcmod.image.web.repository import Access
from hpcmod.model.site import Site

_PLACES = (("XDG_CACHE_HOME", "hpcmod"), ("HOME", ".cache/hpcmod"))
_OF_RUNTIMES = ("APPTAINER_CACHEDIR", "SINGULARITY_CACHEDIR")


def make_options(
    site: Site,
    environ: Mapping[str, str],
    *,
    tool: str,
    checksum: str | None = None,
    compression: str = "",
    max_memory: int = 0,
    use_cache: bool = True,
    allow_http: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> ObtainOptions:
    """Make the options from the site profile, the environment, and what the user asked for.

    Parameters
    ----------
    environ
        HPCMOD_CACHE, HPCMOD_MAX_MEMORY and the usual variables for caches are read; programs that are run get all.
    tool
        Name and version of this program.
    compression
        As `images.compression` of the profile, which it overrules.
    max_memory
        MB that the entries of an image may take while it is converted; 0 for $HPCMOD_MAX_MEMORY, else the default.

    Raises
    ------
    HpcmodError
        If there is no such compressor, or no place for a cache.
    """
    return ObtainOptions(
        architecture=architecture_name(platform.machine()),
        tool=tool,
        environ=environ,
        checksum=checksum,
        policy=site.trust,
        cache=open_cache(site, environ) if use_cache else None,
        access=Access(allow_http=allow_http, announce=cache(tell)),  # once for each server
        conversion=_with_memory(
            parse_compression(compression or site.compression), max_memory or environ.get("HPCMOD_MAX_MEMORY", "")
        ),
        tell=tell,
    )


def parse_compression(text: str) -> ConvertOptions:
    """Turn NAME[:LEVEL] into options; an empty text gives the default.

    Raises
    ------
    HpcmodError
        If there is no such compressor or level, or its library is missing.
    """
    if not text:
        return ConvertOptions()
    name, colon, level = text.partition(":")
    if colon and not re.fullmatch(r"[0-9]{1,2}", level):
        raise BadInputError(f"compression {text!r}: {level!r} is not a level", "Write it as zstd:3 or gzip:6.")
    chosen = codec(name, int(level) if level else None)
    return ConvertOptions(compression=chosen.name, level=chosen.level)


def _with_memory(options: ConvertOptions, megabytes: int | str) -> ConvertOptions:
    if megabytes == "":
        return options
    if not re.fullmatch(r"[1-9][0-9]{0,8}", str(megabytes)):
        raise BadInputError(f"HPCMOD_MAX_MEMORY is {megabytes!r}, expected a number of MB", "HPCMOD_MAX_MEMORY=2000")
    return replace(options, most_memory=int(megabytes) * 10**6)


def open_cache(site: Site, environ: Mapping[str, str]) -> Cache:
    """Open the cache: $HPCMOD_CACHE, else the site's, else the user's own, beside the runtime's where that was moved.

    Raises
    ------
    LackingError
        If there is no place for it, or it cannot be made for its group.
    """
    directory = Path(_place(site, environ))
    if site.cache_group and not environ.get("HPCMOD_CACHE") and not directory.exists():
        _make_shared(directory, site.cache_group)
    return Cache(directory)


def _place(site: Site, environ: Mapping[str, str]) -> str:
    if environ.get("HPCMOD_CACHE"):
        return environ["HPCMOD_CACHE"]
    if site.cache:
        return Template(site.cache).safe_substitute(environ)
    for name, below in (*((name, "hpcmod") for name in _OF_RUNTIMES), *_PLACES):
        if environ.get(name):
            return f"{environ[name]}/{below}"
    raise LackingError("there is no place for the cache: neither HOME nor HPCMOD_CACHE is set", "Set HPCMOD_CACHE.")


def _make_shared(directory: Path, group: str) -> None:
    """Make the directory of a cache that a group shares, which gets its name when it is the group's.

    Raises
    ------
    LackingError
        If the user may not, as one who is not in that group.
    """
    try:
        number = grp.getgrnam(group).gr_gid
    except KeyError as err:
        raise LackingError(f"images.cache_group: there is no group {group!r}", "Fix the site profile.") from err
    partial = directory.with_name(f".{directory.name}.{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        os.chown(partial, -1, number)
        partial.chmod(0o2770)
        partial.rename(directory)
    except OSError as err:
        with contextlib.suppress(OSError):
            partial.rmdir()
        if not directory.is_dir():  # made by another process meanwhile
            raise LackingError(
                f"{directory}: cannot be made for the group {group}: {err.strerror}",
                "Have somebody in that group make it, or set HPCMOD_CACHE to a directory of your own.",
            ) from err
