"""The command `hpcmod cache`: list and clean the cache of registry downloads."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.core.cli.groups import CommandGroup
from hpcmod.core.cli.output import format_size, json_option, print_json, print_table, tell
from hpcmod.core.errors import BadInputError
from hpcmod.images.cache import Cache, CacheEntry
from hpcmod.machine import load_site

_DAY = 86_400.0
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True)
class CacheList:
    """Blobs of the cache: all, or those that were removed."""

    directory: Path
    blobs: tuple[CacheEntry, ...]


@click.group(cls=CommandGroup)
def cache() -> None:
    """List and clean the cache of registry downloads.

    The cache is in $HPCMOD_CACHE, else in the directory that the site profile names, else in your cache directory. You
    can remove anything in it: what is missing is downloaded again.

    \b
    Examples:
      hpcmod cache ls
      hpcmod cache gc --max-size 20G
    """


@cache.command("ls")
@json_option(CacheList)
def cache_ls(as_json: bool) -> None:
    """List the blobs, least recently used first: digest, bytes, days since the last use, state.

    \b
    Example:
      hpcmod cache ls
    """
    found = _open()
    _print(found.entries(), as_json, directory=found.directory, done="total")


@cache.command("gc")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="Remove blobs that were unused for this many days (default: 30).",
)
@click.option(
    "--max-size", metavar="BYTES", help="Then remove the least recently used blobs down to this size: 20G, 500M."
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed; remove nothing.")
@json_option(CacheList)
def cache_gc(older_than: float | None, max_size: str | None, dry_run: bool, as_json: bool) -> None:
    """Remove blobs that were unused for 30 days, or as the options say; downloads in progress are kept.

    \b
    Examples:
      hpcmod cache gc
      hpcmod cache gc --max-size 20G --dry-run
      hpcmod cache gc --older-than 0        # everything
    """
    most = parse_size(max_size) if max_size else None
    days = 30.0 if older_than is None and most is None else older_than
    found = _open()
    gone = found.gc(now=time.time(), oldest=None if days is None else days * _DAY, most=most, dry_run=dry_run)
    done = "would be removed:" if dry_run else "removed"
    _print(gone, as_json, directory=found.directory, done=done)


def parse_size(text: str) -> int:
    """Return a size in bytes; K, M, G and T are powers of 1000.

    Raises BadInputError if the text is not a size.
    """
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)([KMGT]?)B?", text.strip().upper())
    if match is None:
        raise BadInputError(f"--max-size {text}: not a size", "Write it as 20G or 500M.")
    return int(float(match[1]) * _UNITS[match[2]])


def _open() -> Cache:
    from hpcmod.images.settings import open_cache  # slow to import: see image.py

    return open_cache(load_site(None, os.environ), os.environ)


def _print(entries: Sequence[CacheEntry], as_json: bool, *, directory: Path, done: str) -> None:
    """Print the blobs, and in a last line for people what was done with them, such as `removed`."""
    if as_json:
        print_json(CacheList(directory, tuple(entries)))
        return
    print_table(("DIGEST", "BYTES", "DAYS UNUSED", "STATE"), map(_row, entries))
    total = sum(entry.size for entry in entries)
    blobs = f"{len(entries)} blob{'s' * (len(entries) != 1)}"
    tell(f"{directory}: {done} {blobs}, {format_size(total) if total else '0 B'}")


def _row(entry: CacheEntry) -> tuple[str, ...]:
    whole = "complete" if entry.whole else "partial"
    state = "busy" if entry.busy else whole
    days = max(0.0, time.time() - entry.used) / _DAY
    return entry.digest, str(entry.size), f"{days:.1f}", state
