"""Read the tar of a layer without seeking: old, ustar, PAX and GNU members, and sparse files in the formats of PAX.

A member is a header of 512 bytes and its data, padded to a multiple of 512. Headers are parsed directly from the blocks
of the decompressor, and data is returned as views of these blocks: data within one block is not copied.
"""

from __future__ import annotations

import posixpath
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any, Callable

from hpcmod.images.layers.tar_fields import (
    Bytes,
    Extent,
    Numbers,
    check_map,
    check_sum,
    decimal,
    decode_text,
    pax_map,
    pax_records,
    pax_time,
    refuse,
)
from hpcmod.images.layers.tar_source import BLOCK, TarSource

_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s8s64s8s8s155s12x")
_ZERO = bytes(BLOCK)
_HOLE = memoryview(bytes(1 << 17))
_LARGEST_EXTENSION = 1 << 20  # bytes of a long name or an extended header; Go's reader has the same limit
_MOST_EXTENTS = 1 << 16

_LONGEST_NAME, _LONGEST_PATH = 255, 4095  # limits of Linux; squashfs allows more

_KINDS = dict.fromkeys((b"0", b"\0", b"7"), "file") | dict(
    zip((b"1", b"2", b"3", b"4", b"5", b"6"), ("hard", "symlink", "char", "block", "dir", "fifo"))
)
_UNCLEAN = re.compile(rb"(?:^|/)\.{0,2}(?:/|$)")
_XATTR, _USER_XATTR = b"SCHILY.xattr.", b"SCHILY.xattr.user."
_SPARSE = b"GNU.sparse."


class TarEntry:
    """One member; its content is available until the next member is read."""

    __slots__ = ("extents", "kind", "mode", "mtime", "path", "size", "source", "target", "xattrs")

    path: bytes
    """Clean and relative: no `.`, no `..`, no slash at either end; empty for the root."""
    kind: str
    """file, hard (a hard link), symlink, char, block, dir or fifo."""
    mode: int
    """Permission bits, 07777."""
    mtime: int
    """Unix seconds, rounded down."""
    size: int
    """Bytes of a file, holes included."""
    target: bytes
    """Target of a symlink, unchanged; of a hard link, a clean path."""
    xattrs: tuple[tuple[bytes, bytes], ...]
    """Those of users (`user.`), sorted by name; the others are of use to root only."""
    extents: list[Extent] | None
    """For a sparse file: the pieces that are in the tar."""
    source: TarSource

    def chunks(self) -> Iterable[Bytes]:
        """Return the content of a file in order; may be called only once."""
        if self.extents is None:
            return self.source.pieces(self.size)
        return _filled(self.source, self.extents, self.size)


def walk(blocks: Iterable[Bytes]) -> Iterator[TarEntry]:
    """Yield each member of a tar that is a file, a directory, a link or a device; read the tar to its end.

    The tar comes in pieces of any length.

    Raises BadInputError if it is not a tar, or a member is invalid, and VerificationError if it is truncated.
    """
    source = TarSource(blocks)
    numbers = Numbers()
    pax: dict[bytes, Any] = {}
    while True:
        header = source.header()
        if len(header) < BLOCK or header == _ZERO:
            source.end(header)
            return
        fields = _HEADER.unpack(header)
        check_sum(header, fields[6])
        kind = fields[7]
        if kind in _KINDS:
            yield _entry(source, fields, numbers, pax)
            pax = {}
        elif kind in _EXTENSIONS:
            _EXTENSIONS[kind](pax, _extension(source, numbers[fields[4]]))
        elif kind == b"g":  # docker and containerd ignore global headers too
            source.begin(numbers[fields[4]])
        elif kind == b"S":
            refuse(f"the member {decode_text(fields[0])!r} is sparse in GNU's old format, which Apptainer refuses too")
        else:
            refuse(f"the member {decode_text(fields[0])!r} has the unknown type {kind!r}")


def _entry(source: TarSource, fields: tuple[bytes, ...], numbers: Numbers, pax: dict[bytes, Any]) -> TarEntry:
    """Make an entry from a header and the extended headers before it."""
    name, mode, _, _, size, mtime, _, kind, target, magic, *_, prefix = fields
    name = name.partition(b"\0")[0]
    if prefix[0] and magic[:6] == b"ustar\0":
        name = decode_text(prefix) + b"/" + name
    entry = TarEntry()
    entry.source = source
    entry.path = clean(name)
    entry.kind = what = _KINDS[kind]
    entry.mode = numbers[mode] & 0o7777
    entry.mtime = numbers[mtime]
    entry.size = numbers[size] if what == "file" else 0
    entry.target = decode_text(target) if what in ("symlink", "hard") else b""
    entry.xattrs = ()
    entry.extents = None
    if pax:
        _apply(entry, pax)
        name = pax.get(b"path", name)
    if kind == b"\0" and name.endswith(b"/"):  # old tars mark directories by a trailing slash
        entry.kind, entry.size = "dir", 0
    if what == "hard":
        entry.target = clean(entry.target)
    _begin(entry, pax)
    return entry


def _apply(entry: TarEntry, pax: dict[bytes, Any]) -> None:
    """Apply the extended headers to an entry."""
    if b"path" in pax:
        entry.path = clean(pax[b"path"])
    if entry.kind == "file":
        entry.size = pax.get(b"size", entry.size)
    if entry.target:
        entry.target = pax.get(b"linkpath", entry.target)
    entry.mtime = pax.get(b"mtime", entry.mtime)
    entry.xattrs = tuple(sorted(pax.get(_XATTR, {}).items()))


def _begin(entry: TarEntry, pax: dict[bytes, Any]) -> None:
    """Set how much data follows, and where it belongs in a sparse file."""
    stored = entry.size
    entry.source.begin(stored)
    if _SPARSE in pax and entry.kind == "file":
        stored = _pax_sparse(entry, pax[_SPARSE], stored)
    if entry.extents is not None:
        check_map(entry.extents, size=entry.size, stored=stored)


def _pax_sparse(entry: TarEntry, records: list[tuple[bytes, bytes]], stored: int) -> int:
    """Read a map in one of the PAX formats; return how many bytes of the file are in the tar."""
    said = dict(records)
    if b"name" in said:
        entry.path = clean(said[b"name"])
    if b"realsize" in said or b"size" in said:
        entry.size = decimal(said.get(b"realsize", said.get(b"size", b"")))
    if said.get(b"major") != b"1":
        entry.extents = pax_map(records)
        return stored
    before = entry.source.left
    entry.extents = _map_in_data(entry.source)
    return stored - (before - entry.source.left)


def _map_in_data(source: TarSource) -> list[Extent]:
    """Read the map of PAX format 1.0: decimal lines at the start of the data, beginning with the number of pieces."""
    lines: list[bytes] = []
    rest, wanted = b"", 1
    while len(lines) < wanted:
        *more, rest = (rest + source.take(BLOCK)).split(b"\n")
        lines += more
        if len(rest) > BLOCK:
            refuse("the map of a sparse file is not a list of numbers")
        if lines:
            wanted = 1 + 2 * decimal(lines[0])
        if wanted > 2 * _MOST_EXTENTS:
            refuse(f"the map of a sparse file has {wanted // 2} pieces, at most {_MOST_EXTENTS} are read")
    numbers = [decimal(line) for line in lines[1:wanted]]
    return list(zip(numbers[::2], numbers[1::2]))


def _filled(source: TarSource, extents: list[Extent], size: int) -> Iterator[Bytes]:
    """Yield a sparse file's content with its holes as zeros."""
    at = 0
    for offset, length in [*extents, (size, 0)]:
        for start in range(at, offset, len(_HOLE)):
            yield _HOLE[: offset - start]
        yield from source.pieces(length)
        at = offset + length


def clean(path: bytes) -> bytes:
    """Make a path relative to the root, which it cannot leave: `../../a/./b//` becomes `a/b`, and `/` empty.

    Raises BadInputError if it contains a NUL or is longer than Linux allows.
    """
    if path[:2] == b"./":
        path = path[2:]
    if path[-1:] == b"/" or path[:1] == b"/":
        path = path.strip(b"/")
    if path[:1] == b"." or b"/." in path or b"//" in path:
        path = posixpath.normpath(b"/" + path).lstrip(b"/") if _UNCLEAN.search(path) else path
    if len(path) > _LONGEST_NAME and (len(path) > _LONGEST_PATH or max(map(len, path.split(b"/"))) > _LONGEST_NAME):
        refuse(f"a path of {len(path)} bytes, longer than Linux allows: {path[:60]!r}...")
    if b"\0" in path:
        refuse(f"a NUL in the name {path[:60]!r}")
    return path


def _extended(pax: dict[bytes, Any], data: bytes) -> None:
    """Read a PAX extended header."""
    for key, value in pax_records(data):
        if key in (b"path", b"linkpath"):
            pax[key] = value
        elif key == b"size":
            pax[key] = decimal(value)
        elif key == b"mtime":
            pax[key] = pax_time(value)
        elif key.startswith(_USER_XATTR) and key != _USER_XATTR:
            pax.setdefault(_XATTR, {})[key[len(_XATTR) :]] = value
        elif key.startswith(_SPARSE):
            pax.setdefault(_SPARSE, []).append((key[len(_SPARSE) :], value))


_EXTENSIONS: dict[bytes, Callable[[dict[bytes, Any], bytes], None]] = {
    b"x": _extended,
    b"X": _extended,  # Solaris
    b"L": lambda pax, data: pax.update({b"path": decode_text(data)}),  # GNU, like the next
    b"K": lambda pax, data: pax.update({b"linkpath": decode_text(data)}),
}


def _extension(source: TarSource, size: int) -> bytes:
    if size > _LARGEST_EXTENSION:
        refuse(f"an extended header of {size} bytes, at most {_LARGEST_EXTENSION} are read")
    source.begin(size)
    return source.take(size)
