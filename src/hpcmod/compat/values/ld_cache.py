"""Read ldconfig's cache of libraries (/etc/ld.so.cache), which the dynamic loader searches.

File format since glibc 2.2, numbers in the machine's byte order (sysdeps/generic/dl-cache.h):

    ["ld.so-1.7.0" and 12 bytes an entry, for older loaders: skipped]
    "glibc-ld.so.cache1.1"  entries:4  bytes of texts:4  flags:1  3  extensions at:4  12
    24 bytes an entry: flags:4  name at:4  path at:4  4  processor:8
    texts, each ended by a zero byte; extensions: magic:4  sections:4, 16 bytes a section: tag:4  flags:4  at:4  size:4
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence

from hpcmod.core.errors import BadInputError

_OLD, _NEW = b"ld.so-1.7.0", b"glibc-ld.so.cache1.1"
_OLD_HEADER, _OLD_ENTRY, _HEADER, _ENTRY = 16, 12, 48, 24
_EXTENSIONS, _LEVELS = 0xEAA42174, 1  # magic of the extensions; section with the names of processor levels
_HAS_LEVEL = 1 << 62

_ORDER = "<" if sys.byteorder == "little" else ">"


def parse_ld_cache(data: bytes, levels: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """Return the soname and path of each library in the cache, the preferred one of a name first.

    Parameters
    ----------
    levels
        Processor levels, as named below glibc-hwcaps, best first; libraries for other levels are left out.

    Raises
    ------
    BadInputError
        If it is not a cache, or truncated.
    """
    start = _start(data)
    try:
        return tuple(_entries(data[start:], levels))
    except (struct.error, IndexError) as err:
        raise BadInputError("the library cache is damaged", "Run as root: ldconfig") from err


def _start(data: bytes) -> int:
    """Return the offset at which the newer format begins."""
    start = 0
    if data.startswith(_OLD) and len(data) >= _OLD_HEADER:
        (count,) = struct.unpack_from(f"{_ORDER}I", data, _OLD_HEADER - 4)
        start = (_OLD_HEADER + count * _OLD_ENTRY + 7) // 8 * 8
    if not data.startswith(_NEW, start):
        raise BadInputError("not a library cache as written by ldconfig", "Run as root: ldconfig")
    return start


def _entries(data: bytes, levels: Sequence[str]) -> Iterator[tuple[str, str]]:
    count, _, _, extensions = struct.unpack_from(f"{_ORDER}IIB3xI", data, len(_NEW))
    known = _levels(data, extensions) if extensions else []
    entries = []
    for at in range(_HEADER, _HEADER + count * _ENTRY, _ENTRY):
        _, name, path, _, processor = struct.unpack_from(f"{_ORDER}IIIIQ", data, at)
        level = known[processor & 0xFFFFFFFF] if processor & _HAS_LEVEL else ""
        if level in levels or not processor:
            rank = levels.index(level) if level else len(levels)
            entries.append((rank, _text(data, name), _text(data, path)))
    yield from ((name, path) for _, name, path in sorted(entries, key=lambda entry: entry[0]))


def _levels(data: bytes, at: int) -> list[str]:
    """Return the names of the processor levels that entries refer to by number."""
    magic, count = struct.unpack_from(f"{_ORDER}II", data, at)
    for number in range(count if magic == _EXTENSIONS else 0):
        tag, _, place, size = struct.unpack_from(f"{_ORDER}IIII", data, at + 8 + number * 16)
        if tag == _LEVELS:
            return [_text(data, text) for text in struct.unpack_from(f"{_ORDER}{size // 4}I", data, place)]
    return []


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    if end < 0:
        raise IndexError(at)
    return data[at:end].decode(errors="surrogateescape")
