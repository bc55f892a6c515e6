"""Change valid inputs at random: text, binary formats and tar archives."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence

ODD = (
    *(b"", b"\0", b"\xff", b"\n", b"/", b"..", b":", b"@", b"%", b"[", b"]", b"{", b"}", b'"', b"\\ud800", b"-1"),
    *(b"null", b"1e999", b"9" * 30, b"sha256:", b"://", b"oci:", "é".encode(), b" ", b"true", b"\\", b"'", b"#"),
    *(b"(" * 50, b"[" * 3000, b"= ", b'"""', b"\r", b"\x1b]0;", "\u202e".encode(), b"1979-05-27T07:32:00Z"),
)
"""Byte strings that often break parsers."""

NUMBERS = tuple(
    struct.pack("<q", number) for number in (0, 1, -1, 48, 4096, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63))
)
"""Little-endian numbers at the limits of their types."""


VALUES = (None, True, 7, -1, 1.5, 1e999, "", "x", "\ud800", "Zm9vOmJhcg==", [], ["x", 1], [None], {}, {"x": None}, [{}])
"""JSON values of all types."""


def replace_value(dice: random.Random, data: bytes) -> bytes:
    """Replace one value in a JSON document, at any depth, by one of any type."""
    root = [json.loads(data)]
    holder, key = root, 0
    while isinstance(holder[key], (dict, list)) and holder[key] and dice.random() < 0.7:
        holder = holder[key]
        key = dice.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key] = dice.choice(VALUES)
    return json.dumps(root[0]).encode()


def mutate(dice: random.Random, data: bytes, places: Sequence[range] = ()) -> bytes:
    """Change one to four places of an input: insert, remove, double or replace bytes; sometimes truncate it.

    Of JSON, sometimes a value is replaced.

    `places`: Ranges of offsets to change, for binary formats of which only some parts matter; keeps the length.
    """
    if not places and data[:1] in (b"{", b"[") and data[-1:] in (b"}", b"]") and dice.random() < 0.3:
        return replace_value(dice, data)
    changed = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at = dice.choice(dice.choice(places)) if places else dice.randint(0, len(changed))
        piece = dice.choice(NUMBERS) if places and dice.random() < 0.5 else dice.choice(ODD)
        length = len(piece) if places else dice.choice((0, 0, len(piece), dice.randint(0, 20)))
        changed[at : at + length] = piece if dice.random() < 0.8 else changed[at : at + dice.randint(0, 30)] * 2
    return bytes(changed[: dice.randint(0, len(changed))]) if dice.random() < 0.05 else bytes(changed)


def flip(dice: random.Random, data: bytes) -> bytes:
    """Flip one to eight bits, or overwrite bytes with a number: for compressed and binary data of any layout."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(changed))
        if dice.random() < 0.7:
            changed[at] ^= 1 << dice.randrange(8)
        else:
            number = dice.choice(NUMBERS)[: dice.choice((1, 2, 4, 8))]
            changed[at : at + len(number)] = number
    return bytes(changed[: dice.randint(0, len(changed))]) if dice.random() < 0.05 else bytes(changed)


def tar_headers(archive: bytes) -> list[range]:
    """Return the byte ranges of the headers in a tar archive."""
    return [range(at, at + 512) for at in range(0, len(archive), 512) if archive[at + 257 : at + 262] == b"ustar"]


def mutate_tar(dice: random.Random, archive: bytes, headers: Sequence[range]) -> bytes:
    """Change a tar archive, usually with one header's checksum corrected so that it is read at all."""
    changed = bytearray(mutate(dice, archive, [*headers, range(len(archive))]))
    header = dice.choice(headers)
    if dice.random() < 0.7 and len(changed) >= header.stop:
        changed[header.start + 148 : header.start + 156] = b" " * 8
        changed[header.start + 148 : header.start + 156] = b"%06o\0 " % sum(changed[header.start : header.stop])
    return bytes(changed)
