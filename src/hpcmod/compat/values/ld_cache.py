"""Read ldconfig's cache of libraries (/etc/ld.so.cache), which the dynamic loader searches.

File format since glibc 2.2, numbers in the machine's byte order (sysdeps/generic/dl-cache.h):

    ["ld.so-1.7.0" and 12 bytes an entry, for older loaders: skipped]
    "glibc-ld.so.cache1.1"  entries:4  bytes of texts:4  flags:1  3  extensions at:4  12
    24 bytes an entry: flags:4  name at:4  path at:4  4  processor:8
    texts, each ended by a zero byte; extensions, for libraries that only some processors use
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator

from hpcmod.core.errors import BadInputError

_OLD, _NEW = b"ld.so-1.7.0", b"glibc-ld.so.cache1.1"
_OLD_HEADER, _OLD_ENTRY, _HEADER, _ENTRY = 16, 12, 48, 24

_ORDER = "<" if sys.byteorder == "little" else ">"


def parse_ld_cache(data: bytes) -> tuple[tuple[str, str], ...]:
    """Return the soname and path of each library in the cache that runs on every processor, the preferred one first.

    Raises BadInputError if it is not a cache, or truncated.
    """
    start = _start(data)
    try:
        return tuple(_entries(data[start:]))
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


def _entries(data: bytes) -> Iterator[tuple[str, str]]:
    (count,) = struct.unpack_from(f"{_ORDER}I", data, len(_NEW))
    for at in range(_HEADER, _HEADER + count * _ENTRY, _ENTRY):
        _, name, path, _, processor = struct.unpack_from(f"{_ORDER}IIIIQ", data, at)
        if not processor:
            yield _text(data, name), _text(data, path)


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    if end < 0:
        raise IndexError(at)
    return data[at:end].decode(errors="surrogateescape")
