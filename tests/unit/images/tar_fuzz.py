"""Broken layers for fuzzing: layers of the edge-case corpus with targeted damage, and tars of random headers.

Their checksums are correct, so that the reader gets past them. The reader `layers` of tests/fuzz reads them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from hpcmod.core.errors import HpcmodError
from hpcmod.images.layers.merge import Hidden, merge_layers, read_layer
from hpcmod.images.layers.tar import walk
from hpcmod.images.squashfs.tree import FileData
from tests.oci_corpus import CASES, sealed, tar_bytes

BLOCK = 512
FIELDS = ((0, 100), (100, 8), (108, 8), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (329, 8), (345, 155))
NASTY = (
    *(b"", b"\xff" * 12, b"\x80" + b"\xff" * 11, b"77777777777", b"-1", b" 12 ", b"9", b"0x1", b"1\0002"),
    *(b"../../x", b"/", b".", b"..", b".wh.", b".wh..wh..opq", b".wh...", b"a//b/../c", b"\0a"),
    *(b"x", b"g", b"L", b"K", b"S", b"0", b"1", b"2", b"3", b"5", b"\0", b"D", b"ustar\x0000", b"ustar  \0"),
    *(b"30 mtime=1e5\n", b"12 size=-1\n", b"9999 a=b\n", b"GNU.sparse.map=1,2,3"),
)
KEYS = (
    *(b"path", b"linkpath", b"size", b"mtime", b"uid", b"gid", b"hdrcharset", b"SCHILY.xattr.user.a", b"comment", b""),
    *(
        b"GNU.sparse." + key
        for key in (b"major", b"minor", b"name", b"realsize", b"map", b"size", b"offset", b"numbytes")
    ),
)
VALUES = (
    *(b"", b"0", b"1", b"5", b"512", b"0,1,2,3", b"0,512", b"5,0,1", b"1.5", b"-1", b"-1.5", b"1e5", b"nan", b"9" * 25),
    *(b"a/b", b"../..", b"/", b"\xff\xfe", b"BINARY", b"0x10", b"\xd9\xa1", b" 1", b"1_0", b"a\0b", b"d/" * 3000),
)
BODIES = (
    b"",
    b"x" * 30,
    b"1\n0\n5\n".ljust(512, b"\0") + b"y" * 512,
    b"2\n0\n1\n9\n",
    b"z" * 1024,
    b"1\n99999999999999\n1\n",
)
SEEDS = tuple(tar_bytes(layer) for case in CASES.values() for layer in case.layers if len(tar_bytes(layer)) < 20_000)


def broken_tar(chance: random.Random) -> bytes:
    """Return a valid tar, damaged one to four times."""
    tar = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randrange(1, 5)):
        chance.choice(BREAKS)(tar, chance)
    return bytes(tar)


def made_tar(chance: random.Random) -> bytes:
    """Return a tar of random headers that follow only the format itself: extended headers, long names, sparse files."""
    tar = b""
    for _ in range(chance.randrange(1, 5)):
        if chance.random() < 0.7:
            tar += _member(
                chance.choice(b"xxxgX"), b"".join(_record(chance) for _ in range(chance.randrange(6))), chance
            )
        if chance.random() < 0.2:
            tar += _member(chance.choice(b"LK"), chance.choice(VALUES), chance)
        kind = chance.choice(b"0001235S67")
        tar += _member(kind, chance.choice(BODIES) if kind in b"0S7" else b"", chance)  # other kinds have no contents
    return tar + bytes(chance.choice((0, BLOCK, 2 * BLOCK)))


def _record(chance: random.Random) -> bytes:
    rest = b" " + chance.choice(KEYS) + b"=" + chance.choice(VALUES) + b"\n"
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) > length:
        length += 1
    return b"%d" % (length if chance.random() < 0.95 else chance.choice((length - 1, length + 100, 0, 10**20))) + rest


def _member(kind: int, body: bytes, chance: random.Random) -> bytes:
    head = bytearray(BLOCK)
    number, size = b"%011o\0", len(body) if chance.random() < 0.9 else chance.choice((0, BLOCK, 8**11 - 1))
    head[:4] = chance.choice((b"a", b"a/b", b"c", b"d/")).ljust(4, b"\0")
    head[124:136], head[136:148], head[156], head[257:265] = number % size, number % 7, kind, b"ustar\x0000"
    if kind in b"12":
        head[157:161] = chance.choice((b"a", b"/a", b"../c", b"")).ljust(4, b"\0")
    for at in range(386, 386 + 24 * chance.randrange(5), 24) if kind in b"S" else ():
        head[at : at + 24] = number % chance.choice((0, 5, 512, 1024)) + number % chance.choice((0, 1, 512, 600))
        head[482], head[483:495] = chance.randrange(2), number % chance.choice((0, 1, 600, 4096, 8**11 - 1))
    return sealed(bytes(head)) + body + bytes(-len(body) % BLOCK)


def _set_field(tar: bytearray, chance: random.Random) -> None:
    at = BLOCK * chance.randrange(max(1, len(tar) // BLOCK))
    start, length = chance.choice(FIELDS)
    tar[at + start : at + start + length] = chance.choice(NASTY)[:length].ljust(length, b"\0")
    if len(tar) >= at + BLOCK:
        tar[at : at + BLOCK] = sealed(bytes(tar[at : at + BLOCK]))


def _set_bytes(tar: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(tar) + 1)
    piece = chance.choice(NASTY)
    tar[at : at + len(piece)] = piece


def _flip(tar: bytearray, chance: random.Random) -> None:
    if tar:
        tar[chance.randrange(len(tar))] ^= 1 << chance.randrange(8)


def _cut(tar: bytearray, chance: random.Random) -> None:
    del tar[chance.randrange(len(tar) + 1) :]


def _splice(tar: bytearray, chance: random.Random) -> None:
    other = chance.choice(SEEDS)
    at = BLOCK * chance.randrange(len(tar) // BLOCK + 1)
    tar[at:at] = other[: BLOCK * chance.randrange(len(other) // BLOCK + 1)]


BREAKS: Sequence[Callable[[bytearray, random.Random], None]] = (
    _set_field,
    _set_field,
    _set_bytes,
    _flip,
    _cut,
    _splice,
)


def pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Split bytes as a decompressor might return them."""
    step = chance.choice((len(data) or 1, 512, 700, 4096, 1))
    yield from (data[at : at + step] for at in range(0, len(data), step))


def try_image(chance: random.Random) -> str:
    """Read and merge one to three broken layers; return the result. Exceptions other than HpcmodError propagate."""
    hidden, layers = Hidden(), []
    try:
        for _ in range(chance.randrange(1, 4)):
            tar = broken_tar(chance) if chance.random() < 0.7 else made_tar(chance)
            entries = walk(pieces(tar, chance))
            layers.append(read_layer(entries, hidden, _swallow))
            hidden.add(layers[-1])
        merge_layers(reversed(layers), mtime=0)
    except HpcmodError as err:
        return type(err).__name__
    return "merged"


def _swallow(size: int, chunks: object) -> FileData:
    """Read at most 1 MiB of the contents, and check that their length is as announced."""
    done = 0
    for chunk in chunks:  # type: ignore[attr-defined]
        done += len(chunk)
        if done > 1 << 20:
            return FileData(size)
    if done != size:
        raise AssertionError(f"{done} bytes came, {size} were promised")
    return FileData(size)
