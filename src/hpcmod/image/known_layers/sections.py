"""The section of a converted layer: the consecutive bytes of a SIF with its contents, and the layer's entries.

A conversion writes each layer's contents into a section that depends on nothing but the layer and the names that
upper layers hide in it. So a section can be copied into another image with the same layer.

Packed, a section is a compressed JSON object with lists, and binary columns: one for each field of all entries.
"""

from __future__ import annotations

import base64
import json
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from hpcmod.errors import BadInputError
from hpcmod.image.layers.merge import Hidden, Record
from hpcmod.image.squashfs.format import NO_FRAGMENT
from hpcmod.image.squashfs.tree import KINDS, FileData, Node

MOST_UNPACKED = 1 << 30
"""Largest size of a packed section when it is unpacked, in bytes."""

KEY_SIZE = 16
SEAL_SIZE = 16

_HARD, _WHITEOUT = len(KINDS), len(KINDS) + 1
_NAMES = (*KINDS, "hard", "whiteout")
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}
_ABSENT = (Node("hard", 0), Node("whiteout", 0))
"""Stand for entries without a node."""
_NONE = -1
_NO_DEVICE = (0, 0)
_LARGEST_TIME = 0xFFFFFFFF
_COLUMNS = (
    *(("kinds", "B"), ("modes", "H"), ("uids", "Q"), ("gids", "Q"), ("mtimes", "Q"), ("contents", "q")),
    *(("sizes", "Q"), ("starts", "q"), ("fragments", "q"), ("offsets", "Q"), ("holes", "Q")),
    *(("counts", "Q"), ("words", "I")),
)
"""Name and type of each column: first those of the entries, then those of the contents."""


@dataclass(frozen=True)
class Section:
    """One layer in a SIF."""

    layer: str
    """Digest of the layer's stored bytes, or of its tar if those have none; verified when it was converted."""
    start: int
    """Offset in the SIF."""
    length: int
    records: Sequence[Record]
    """The layer's entries; offsets of contents count from the start of the section, fragments from its first one."""
    contents: Sequence[FileData]
    """The contents of the entries, each once."""
    fragments: tuple[tuple[int, int], ...]
    """Offset in the section, and size field, of each fragment block."""

    def fits(self, hidden: Hidden) -> bool:
        """Return whether a conversion would write the same contents below these upper layers."""
        hides = hidden.hides
        return not any(
            (found.data is None) != hides(path)
            for path, found in self.records
            if isinstance(found, Node) and found.kind == "file"
        )

    def move(self, start: int, first: int) -> None:
        """Add the offset of the section, and the number of its first fragment block, to those of its contents."""
        for data in self.contents:
            if data.start >= 0:
                data.start += start
            if data.is_in_fragment:
                data.fragment += first


@dataclass(frozen=True)
class PackedSection:
    """A section whose entries are packed."""

    layer: str
    size: int
    """Stored size of the layer in bytes."""
    start: int
    length: int
    packed: bytes
    key: bytes = b""
    seal: bytes = b""
    """GMAC of the section under the key (`seals`), which is secret; both are empty until the SIF is complete."""


def pack_entries(
    records: Sequence[Record], fragments: Sequence[tuple[int, int]], *, base: int, first_fragment: int
) -> bytes:
    """Pack the entries and the fragments of a section that has just been written.

    Parameters
    ----------
    fragments
        Offset in the squashfs, and size field, of each fragment block of the section.
    base
        Offset of the section in the squashfs.
    first_fragment
        Number of its first fragment block in the squashfs.

    Raises
    ------
    OverflowError
        If an entry has a value that does not fit, which no image can have that was converted completely.
    """
    nodes = [found if isinstance(found, Node) else _ABSENT[found is None] for _, found in records]
    known: dict[FileData, int] = {}
    number = known.setdefault
    contents = [_NONE if node.data is None else number(node.data, len(known)) for node in nodes]
    columns = [
        *_pack_nodes(nodes, contents),
        *_pack_contents(list(known), base=base, first_fragment=first_fragment),
    ]
    head = {
        "more": _details(records, nodes),
        "fragments": [[start - base, word] for start, word in fragments],
        "lengths": [len(column) * column.itemsize for column in columns],
    }
    names = b"\0".join([path for path, _ in records])
    body = b"".join((json.dumps(head).encode(), b"\n", *columns, names))
    return zlib.compress(body, 1)


def _pack_nodes(nodes: Sequence[Node], contents: Sequence[int]) -> Iterator[array[int]]:
    """Yield the columns of the entries; whole columns at a time, because an image may have a million entries."""
    times = [node.mtime for node in nodes]
    if times and not 0 <= min(times) <= max(times) <= _LARGEST_TIME:
        times = [min(max(each, 0), _LARGEST_TIME) for each in times]
    yield array("B", [_NUMBERS[node.kind] for node in nodes])
    yield array("H", [node.mode for node in nodes])
    yield array("Q", [node.uid for node in nodes])
    yield array("Q", [node.gid for node in nodes])
    yield array("Q", times)
    yield array("q", contents)


def _pack_contents(known: Sequence[FileData], *, base: int, first_fragment: int) -> Iterator[array[int]]:
    """Yield the columns of the contents."""
    yield array("Q", [data.size for data in known])
    yield array("q", [_NONE if data.start < 0 else data.start - base for data in known])
    yield array("q", [_NONE if data.fragment == NO_FRAGMENT else data.fragment - first_fragment for data in known])
    yield array("Q", [data.offset for data in known])
    yield array("Q", [data.holes for data in known])
    yield array("Q", [len(data.sizes) for data in known])
    yield array("I", chain.from_iterable([data.sizes for data in known]))


def _details(records: Sequence[Record], nodes: Sequence[Node]) -> list[list[Any]]:
    """Return the fields that only a few entries have: number, link target, device numbers and attributes."""
    found: list[list[Any]] = []
    for number, node in enumerate(nodes):
        if node.target or node.xattrs or node.device != _NO_DEVICE:
            xattrs = [[_text(name), _text(value)] for name, value in node.xattrs]
            found.append([number, _text(node.target), list(node.device), xattrs])
    hard = [[number, _text(found), [0, 0], []] for number, (_, found) in enumerate(records) if isinstance(found, bytes)]
    return [*found, *hard]


def unpack_section(one: PackedSection) -> Section:
    """Unpack a section.

    Raises
    ------
    BadInputError
        If it is damaged.
    """
    try:
        unpacking = zlib.decompressobj()
        body = unpacking.decompress(one.packed, MOST_UNPACKED)
        if not unpacking.eof:
            raise BadInputError("the index of a SIF's layers is truncated")
        end = body.index(b"\n")
        head = json.loads(body[:end])
        columns, at = _unpack_columns(head["lengths"], body, end + 1)
        names = body[at:].split(b"\0") if columns["kinds"] else []
        contents = _unpack_contents(columns)
        records = list(zip(names, _unpack_entries(columns, contents, head["more"])))
        fragments = tuple((int(place), int(word)) for place, word in head["fragments"])
        if len(records) != len(columns["kinds"]):
            raise BadInputError("the index of a SIF's layers has too few names")
        return Section(one.layer, one.start, one.length, records, contents, fragments)
    except (ValueError, KeyError, IndexError, TypeError, zlib.error, RecursionError) as err:
        raise BadInputError(f"the index of a SIF's layers is damaged: {err}") from err


def _unpack_columns(lengths: list[int], body: bytes, at: int) -> tuple[dict[str, array[int]], int]:
    columns = {}
    for (name, code), length in zip(_COLUMNS, lengths):
        columns[name] = array(code)
        columns[name].frombytes(body[at : at + length])
        at += length
    return columns, at


def _unpack_contents(columns: dict[str, array[int]]) -> list[FileData]:
    contents, at = [], 0
    words = columns["words"].tolist()
    fields = zip(*(columns[name] for name in ("sizes", "starts", "fragments", "offsets", "holes", "counts")))
    for size, start, fragment, offset, holes, count in fields:
        sizes = words[at : at + count] if count else None
        at += count
        data = FileData(size, sizes=sizes, fragment=NO_FRAGMENT if fragment == _NONE else fragment, offset=offset)
        data.start, data.holes = start, holes
        contents.append(data)
    return contents


def _unpack_entries(
    columns: dict[str, array[int]], contents: Sequence[FileData], more: list[list[Any]]
) -> list[Node | bytes | None]:
    kinds = columns["kinds"]
    choice = [*contents, None]  # so that _NONE is None
    fields = zip(*(columns[name] for name in ("kinds", "modes", "uids", "gids", "mtimes", "contents")))
    found: list[Node | bytes | None] = [
        Node(_NAMES[kind], mode, uid=uid, gid=gid, mtime=mtime, data=choice[content])
        for kind, mode, uid, gid, mtime, content in fields
    ]
    for number, target, device, xattrs in more:
        node = found[number]
        if isinstance(node, Node):
            node.target, node.device = _bytes(target), (device[0], device[1])
            node.xattrs = tuple((_bytes(name), _bytes(value)) for name, value in xattrs)
    hard = {number: _bytes(target) for number, target, *_ in more if kinds[number] == _HARD}
    for number, kind in enumerate(kinds):
        if kind >= _HARD:
            found[number] = hard[number] if kind == _HARD else None
    return found


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
