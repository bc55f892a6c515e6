"""Library caches in the format of /etc/ld.so.cache."""

from __future__ import annotations

import struct


def make_cache(entries: list[tuple[str, str, int]], *, old: int = 0) -> bytes:
    """Return a cache. An entry is a soname, a path and a level number (0 for none, 1 for the first level); `old` is the
    number of entries in the old format.
    """
    texts, at = b"", 48 + 24 * len(entries)
    rows = b""
    for name, path, level in entries:
        places = []
        for text in (name, path):
            places.append(at + len(texts))
            texts += text.encode() + b"\0"
        rows += struct.pack("=IIIIQ", 0x303, *places, 0, (1 << 62 | level - 1) if level else 0)
    head = b"glibc-ld.so.cache1.1" + struct.pack("=IIB3xI12x", len(entries), len(texts), 2, 0)
    new = head + rows + texts
    if not old:
        return new
    before = b"ld.so-1.7.0\0" + struct.pack("=I", old) + bytes(12 * old)
    return before + bytes(-len(before) % 8) + new
